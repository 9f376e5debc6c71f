"""How long prompts and answers are: log-normal, drawn ahead so that a request costs one look-up."""

from __future__ import annotations

from math import exp, log, sqrt
from random import Random

from director.sim.scenario import Lengths, Spread

_DRAWN = 4096
_TOKENS_MAX = 32_000.0

PRESETS: dict[str, Lengths] = {
    # Measured on the public traces of the same names: mean and coefficient of variation.
    "azure_conversation": Lengths(prompt=Spread(1155.0, 0.96), generated=Spread(211.0, 0.77)),
    "azure_code": Lengths(prompt=Spread(2048.0, 0.96), generated=Spread(28.0, 2.15)),
    "mooncake_conversation": Lengths(prompt=Spread(12035.0, 1.31), generated=Spread(343.0, 0.73)),
}


class LengthPool:
    """Pairs of (prompt, generated), tokens, at least 1 each. The pool's own mean is the exact one."""

    def __init__(self, lengths: Lengths, random: Random) -> None:
        prompts = _draw(lengths.prompt, random)
        generated = _draw(lengths.generated, random)
        self.pairs = list(zip(prompts, generated, strict=True))
        self.prompt_mean = sum(prompts) / _DRAWN
        self.generated_mean = sum(generated) / _DRAWN

    @property
    def tokens_mean(self) -> float:
        return self.prompt_mean + self.generated_mean


def _draw(spread: Spread, random: Random) -> list[float]:
    """A stratified sample, scaled to the mean: thousands of draws of a heavy tail miss it by per cents otherwise."""
    if spread.cv == 0.0:
        return [spread.mean] * _DRAWN
    sigma = sqrt(log(1.0 + spread.cv**2))
    mu = log(spread.mean) - sigma**2 / 2.0
    values = [min(exp(mu + sigma * _normal((i + 0.5) / _DRAWN)), _TOKENS_MAX) for i in range(_DRAWN)]
    scale = spread.mean / (sum(values) / _DRAWN)
    values = [max(1.0, value * scale) for value in values]
    random.shuffle(values)
    return values


def _normal(quantile: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(quantile)
