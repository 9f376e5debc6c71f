"""Weighted rendezvous hashing: stable under change, and exact.

Each candidate draws u in (0, 1) from (key, candidate) and scores ln(u) / share; the greatest score wins. A candidate
wins with probability equal to its share, and when shares change by x only about x of the keys move (Mosko and others;
"weighted rendezvous" in the logarithmic form of Schindelhauer and Schomaker, 2005). Shares alone matter, not history.

The key is hashed once (BLAKE2b, 64 bits). Its halves are a point (x, y) of the unit square, and a candidate's draw is
the fractional part of a·x + b·y, with a and b of its own between 2^20 and 2^21. Each draw is then uniform to within
2^-31, and the draws of several candidates lie on a plane that winds through their cube a million times: as good as
independent for shares, and the same arithmetic on every machine. It costs a third of mixing integers, and this is most
of what a decision costs. Python's own `hash` differs between processes and will not do: all replicas must agree.

Where a single draw is wanted, `unit` mixes by the finaliser of SplitMix64.
"""

from __future__ import annotations

from hashlib import blake2b
from math import log

_MASK = 0xFFFFFFFFFFFFFFFF
_TO_UNIT = 2.0**-53
_LOW = 0xFFFFFFFF
_HALF = 2.0**-32
_WINDINGS = 2.0**20
_TINY = 2.0**-60
"""A draw of exactly 0 has no logarithm."""

Weight = tuple[float, float, float]
"""Share, a, b: made by `weigh`."""


def hash_key(key: str) -> int:
    """64 bits of a request's key. Unpaired surrogates count as themselves: any text has a hash."""
    text = key.encode() if key.isascii() else key.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


def salt(*parts: str) -> int:
    """64 bits that stand for a candidate, or for another use of the same key."""
    return hash_key("\x1f".join(parts))


def unit(key_hash: int, candidate_salt: int) -> float:
    """A draw strictly inside (0, 1), whatever the hash values."""
    x = ((key_hash ^ candidate_salt) + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return (((x ^ (x >> 31)) >> 11) + 0.5) * _TO_UNIT


def weigh(share: float, candidate_salt: int) -> Weight:
    """A candidate as `rank` takes it: its share (> 0), and its own a and b."""
    return (
        share,
        _WINDINGS * (1.0 + (candidate_salt >> 32) * _HALF),
        _WINDINGS * (1.0 + (candidate_salt & _LOW) * _HALF),
    )


def rank(key_hash: int, weights: tuple[Weight, ...]) -> tuple[int, ...]:
    """Indices of `weights` from the winner down; the first of equals wins."""
    if len(weights) == 1:
        return (0,)
    x = (key_hash >> 32) * _HALF
    y = (key_hash & _LOW) * _HALF
    scores = []
    index = 0
    for share, a, b in weights:
        scores.append((log((a * x + b * y) % 1.0 or _TINY) / -share, index))
        index += 1  # noqa: SIM113  enumerate would make a tuple for each
    scores.sort()
    return tuple([i for _, i in scores])
