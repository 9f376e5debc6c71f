"""A compiled route: everything a decision needs, worked out when the plan arrives and not when a request does."""

from __future__ import annotations

from typing import Any

from director.core import rounds
from director.core.affinity import route_mark
from director.core.candidates import Judged, PlanIndex, judge, objective
from director.core.decision import Decision, RejectedCandidate, Rejection, Target
from director.core.pick import salt
from director.core.policy import Policy
from director.core.request import RouteKey
from director.core.rounds import Entrant

REFUSED_SALT = salt("refused")
SHARE_MIN = 1e-6
"""A share below one in a million is dropped, and given to the others: it would only lengthen every answer."""


class CompiledRoute:
    """What one route answers from. Immutable, but for its caches (`answers`, `prepared`, `used`)."""

    __slots__ = (
        "answers",
        "answers_bucket",
        "captive",
        "claimable",
        "drawn",
        "eligible",
        "entrants",
        "holders",
        "judged",
        "key",
        "mark",
        "prepared",
        "refused",
        "shares",
        "targets",
        "used",
        "weights",
    )

    def __init__(self, key: RouteKey, policy: Policy, index: PlanIndex) -> None:
        self.key = key
        self.mark = route_mark(key)
        self.judged: tuple[Judged, ...] = tuple(judge(policy, index, key))
        self.entrants, self.captive = enter(self.judged, index, objective(policy, key).spread_ms)
        share_overload = policy.tenants[key.tenant].on_overload == "share"
        self.refused = rounds.allocate(self.entrants, objective(policy, key).spread_ms, share_overload=share_overload)
        self.targets: tuple[Target | None, ...] = tuple(
            Target(j.region, policy.regions[j.region].endpoint, key.model, j.deployment.version)
            if j.deployment is not None
            else None
            for j in self.judged
        )
        # Who may be picked, and who may stand in for a failed pick: nearest first.
        self.holders: tuple[int, ...] = tuple(i for i, e in enumerate(self.entrants) if e.total > SHARE_MIN)
        self.eligible: tuple[int, ...] = tuple(
            sorted((i for i, j in enumerate(self.judged) if j.eligible), key=lambda i: (self.entrants[i].near_ms, i))
        )
        weights = [(self.entrants[i].total, self._salt(i)) for i in self.holders]
        if self.refused > SHARE_MIN or not weights:
            weights.append((max(self.refused, SHARE_MIN), REFUSED_SALT))
        self.weights: tuple[tuple[float, int], ...] = tuple(weights)
        # Whether the key's hash decides anything: the pick, or the reason of a share that has several parts.
        self.drawn: bool = len(weights) > 1 or any(self.entrants[i].home < self.entrants[i].total for i in self.holders)
        self.shares: dict[str, float] = {}
        for i in self.holders:
            region = self.judged[i].region
            self.shares[region] = round(self.shares.get(region, 0.0) + self.entrants[i].total, 6)
        # Where an affinity token may lead: eligible candidates, and those that only drain.
        self.claimable: dict[str, tuple[int, ...]] = {}
        for i, judged in enumerate(self.judged):
            if judged.eligible or judged.affinity_only:
                self.claimable[judged.region] = (*self.claimable.get(judged.region, ()), i)
        self.answers: dict[Any, Decision] = {}
        self.answers_bucket = 0
        self.prepared: dict[Decision, Any] = {}
        self.used = False

    def _salt(self, i: int) -> int:
        target = self.targets[i]
        return salt(self.judged[i].region, target.version if target is not None else "")

    @property
    def nobody(self) -> bool:
        """No candidate passes the filters."""
        return not self.eligible

    def rejected(self, exclude: tuple[str, ...] = ()) -> tuple[RejectedCandidate, ...]:
        """Every candidate that may not be used, with its reason; for a request's `exclude` too."""
        out = []
        for judged in self.judged:
            rejection = judged.rejection
            if rejection is None and judged.region in exclude:
                rejection = Rejection("request", "excluded", True, "the request excludes this region")
            if rejection is not None:
                version = judged.deployment.version if judged.deployment is not None else None
                out.append(RejectedCandidate(judged.region, self.key.model, version, rejection))
        return tuple(out)


def enter(judged: tuple[Judged, ...], index: PlanIndex, spread_ms: float) -> tuple[list[Entrant], bool]:
    """Line a route's candidates up for the rounds: home shares over the lasting ones, ratios from the plan.

    Returns them with whether the route is captive: its demand has no other candidate than one.
    """
    lasting = [i for i, j in enumerate(judged) if j.lasting]
    near = [j.nearness.near_ms if j.nearness is not None else 0.0 for j in judged]
    well = [j.deployment.capacity_well_tokens_per_s if j.deployment is not None else 0.0 for j in judged]
    home = dict(
        zip(lasting, rounds.home_shares([near[i] for i in lasting], [well[i] for i in lasting], spread_ms), strict=True)
    )
    captive = len(lasting) == 1
    versions: dict[str, int] = {}
    for j in judged:
        if j.eligible:
            versions[j.region] = versions.get(j.region, 0) + 1
    entrants = []
    for i, j in enumerate(judged):
        d = j.deployment
        if d is None:
            entrants.append(
                Entrant(
                    near[i], 0.0, eligible=False, headroom_tokens_per_s=0.0, capacity_tokens_per_s=0.0, admit_home=0.0
                )
            )
            continue
        observed = index.regions.get(j.region)
        cap = observed.share_cap if observed is not None else None
        entrants.append(
            Entrant(
                near_ms=near[i],
                home_share=home.get(i, 0.0),
                eligible=j.eligible,
                headroom_tokens_per_s=d.headroom_tokens_per_s,
                capacity_tokens_per_s=d.capacity_tokens_per_s,
                admit_home=d.admit_captive if captive else d.admit_home,
                admit_overflow=d.admit_overflow,
                admit_relief=d.admit_relief,
                admit_overload=d.admit_overload,
                # Two versions in one region share the region's cap.
                share_max=1.0 if cap is None else cap / max(1, versions.get(j.region, 1)),
            )
        )
    return entrants, captive
