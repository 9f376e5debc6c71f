"""A compiled route: everything a decision needs, worked out when the plan arrives and not when a request does."""

from __future__ import annotations

from typing import Any

from director.core.affinity import route_mark
from director.core.candidates import Judged, judge, objective
from director.core.decision import Decision, RejectedCandidate, Rejection, Target
from director.core.pick import Weight, salt, weigh
from director.core.plan import DeploymentPlan
from director.core.ranking import ModelIndex, PlanIndex, Reach
from director.core.request import RouteKey
from director.core.rounds import Lane, home_shares, spread

REFUSED_SALT = salt("refused")
RANKED_MAX = 3
"""Pick, first and second fallback are the key's own; those behind them are the nearest. So few orders are answered that
they can be remembered."""
SHARE_MIN = 1e-6
"""A share below one in a million is dropped, and given to the others: it would only lengthen every answer."""


class CompiledRoute:
    """What one route answers from. Immutable, but for its caches (`answers`, `prepared`, `used`).

    Candidates are positions in `reach`: those that pass the lasting filters, nearest first.
    """

    __slots__ = (
        "_by_region",
        "_model",
        "answers",
        "answers_expire_s",
        "answers_from_ms",
        "answers_until_ms",
        "captive",
        "certain",
        "drawn",
        "holders",
        "index",
        "key",
        "known",
        "lane",
        "mark",
        "prepared",
        "rank_kept",
        "reach",
        "refused",
        "shares",
        "used",
        "weights",
    )

    def __init__(self, key: RouteKey, index: PlanIndex, previous: CompiledRoute | None = None) -> None:
        self.key = key
        self.index = index
        self.mark: str = previous.mark if previous is not None else route_mark(key)
        self.reach: Reach = index.reach(key, previous.reach if previous is not None else None)
        self._model = index.models.get(key.model)
        # Captive: what it may use is one deployment, so its demand has nowhere else to go.
        self.captive = len(self.reach.order) == 1
        self.lane = self._divide(self._model)
        self.refused = self.lane.left
        totals = [(position, self.lane.total(position)) for position in self._takers()]
        self.holders: tuple[int, ...] = tuple([position for position, total in totals if total > SHARE_MIN])
        weights = [weigh(total, self._salt(position)) for position, total in totals if total > SHARE_MIN]
        if self.refused > SHARE_MIN or not weights:
            weights.append(weigh(max(self.refused, SHARE_MIN), REFUSED_SALT))
        self.weights: tuple[Weight, ...] = tuple(weights)
        # Whether the key's hash matters: there is somebody to choose from, or a share with several reasons.
        self.certain: frozenset[int] = frozenset(p for p in self.holders if self._has_one_reason(p))
        self.drawn = len(weights) > 1 or any(self.lane.home.get(p, 0.0) < self.lane.total(p) for p in self.holders)
        self.shares: dict[str, float] = {}
        for position, total in totals:
            if total > SHARE_MIN:
                region = self.deployment(position).region
                self.shares[region] = round(self.shares.get(region, 0.0) + total, 6)
        self._by_region: dict[str, tuple[int, ...]] = {}
        self.answers: dict[Any, Decision] = {}
        # The refused part, where there is one, may stand among the first.
        self.rank_kept: int = RANKED_MAX + (len(weights) > len(self.holders))
        # By what `rank` says: answers whose reason needs no draw.
        self.known: dict[tuple[int, ...], Decision] = {}
        self.answers_expire_s = 0
        self.answers_from_ms = 0.0
        self.answers_until_ms = 0.0
        self.prepared: dict[Decision, Any] = {}
        self.used = False

    def forget_answers(self) -> None:
        self.answers.clear()
        self.known.clear()
        self.prepared.clear()

    def _has_one_reason(self, position: int) -> bool:
        """Whether a share is all home, all overflow (relief is), or all overload."""
        lane = self.lane
        home, overload, total = lane.home.get(position, 0.0), lane.overload.get(position, 0.0), lane.total(position)
        return home >= total or overload >= total or (home <= 0 and overload <= 0)

    def adopt(self, index: PlanIndex) -> None:
        """Go on under a later plan in which nothing that this route looks at differs. Its use is counted anew."""
        self.index = index
        self._model = index.models.get(self.key.model)
        self.used = False

    def deployment(self, position: int) -> DeploymentPlan:
        """The deployment that stands at a position of the reach."""
        assert self._model is not None
        return self._model.deployments[self.reach.order[position]]

    def is_eligible(self, position: int) -> bool:
        """Whether a candidate passes the filters that look at its state too: it may take new sessions."""
        assert self._model is not None
        return self._model.eligible[self.reach.order[position]]

    def eligible(self) -> tuple[int, ...]:
        """Every candidate that may take new sessions, nearest first."""
        return tuple([position for position in range(len(self.reach.order)) if self.is_eligible(position)])

    def positions_in(self, region: str) -> tuple[int, ...]:
        """The candidates of one region, where an affinity token for it may lead."""
        if not self._by_region:
            for position in range(len(self.reach.order)):
                name = self.deployment(position).region
                self._by_region[name] = (*self._by_region.get(name, ()), position)
        return self._by_region.get(region, ())

    def target(self, position: int) -> Target:
        d = self.deployment(position)
        return Target(d.region, self.index.policy.regions[d.region].endpoint, d.model, d.version)

    def judged(self) -> list[Judged]:
        """Every candidate with its rejection or its terms, the long way: for refusals and explanations."""
        deployments = self._model.deployments if self._model is not None else ()
        return judge(self.index.policy, self.index.trips, self.index.regions, deployments, self.key)

    def rejected(self, exclude: tuple[str, ...] = ()) -> tuple[RejectedCandidate, ...]:
        """Every candidate that may not be used, with its reason; for a request's `exclude` too."""
        out = []
        for judged in self.judged():
            rejection = judged.rejection
            if rejection is None and judged.region in exclude:
                rejection = Rejection("request", "excluded", True, "the request excludes this region")
            if rejection is not None:
                version = judged.deployment.version if judged.deployment is not None else None
                out.append(RejectedCandidate(judged.region, self.key.model, version, rejection))
        return tuple(out)

    def troubled(self) -> bool:
        """Whether a permitted region is in trouble or shares move: when DNS answers should live shorter."""
        for position in range(len(self.reach.order)):
            d = self.deployment(position)
            admitted = d.admit_captive if self.captive else d.admit_home
            if not self.is_eligible(position) or admitted < 1.0 or d.breaker != "closed":
                return True
            if self.index.regions[d.region].freshness != "fresh":
                return True
        return False

    def _takers(self) -> list[int]:
        lane = self.lane
        return sorted({*lane.home, *lane.overflow, *lane.relief, *lane.overload})

    def _salt(self, position: int) -> int:
        d = self.deployment(position)
        return salt(d.region, d.version)

    def _divide(self, model: ModelIndex | None) -> Lane:
        policy = self.index.policy
        spread_ms = objective(policy, self.key).spread_ms
        if model is None:
            return Lane((), spread_ms, {})
        order = self.reach.order
        seated = [model.deployments[i] for i in order]
        eligible = [model.eligible[i] for i in order]
        share_max = [model.share_max[i] for i in order]
        well = [d.capacity_well_tokens_per_s for d in seated]
        lane = Lane(self.reach.near_ms, spread_ms, home_shares(self.reach.near_ms, well, spread_ms))
        for position in lane.home_share:
            if eligible[position]:
                d = seated[position]
                lane.take_home(position, d.admit_captive if self.captive else d.admit_home, share_max[position])
        able = [d.capacity_tokens_per_s if fine else 0.0 for d, fine in zip(seated, eligible, strict=True)]
        if lane.left > 0:
            weights = [
                d.headroom_tokens_per_s if fine and d.admit_overflow else 0.0
                for d, fine in zip(seated, eligible, strict=True)
            ]
            spread(lane, "overflow", weights, [d.admit_overflow for d in seated], share_max)
        if lane.left > 0:
            weights = [c if d.admit_relief else 0.0 for c, d in zip(able, seated, strict=True)]
            spread(lane, "relief", weights, [d.admit_relief for d in seated], share_max)
        if lane.left > 0 and policy.tenants[self.key.tenant].on_overload == "share":
            weights = [c if d.admit_overload else 0.0 for c, d in zip(able, seated, strict=True)]
            spread(lane, "overload", weights, [d.admit_overload for d in seated], share_max)
        return lane
