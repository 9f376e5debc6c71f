"""Weighted rendezvous hashing: stable under change, and exact.

Each candidate draws u in (0, 1) from (key, candidate) and scores ln(u) / share; the greatest score wins. A candidate
wins with probability equal to its share, and when shares change by x only about x of the keys move (Mosko and others;
"weighted rendezvous" in the logarithmic form of Schindelhauer and Schomaker, 2005). Shares alone matter, not history.

The key is hashed once (BLAKE2b, 64 bits); each candidate's draw mixes that with the candidate's salt by the finaliser
of SplitMix64. Python's own `hash` differs between processes and will not do: all replicas must agree.
"""

from __future__ import annotations

from hashlib import blake2b
from math import log

_MASK = 0xFFFFFFFFFFFFFFFF
_TO_UNIT = 2.0**-53


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


def rank(key_hash: int, weights: tuple[tuple[float, int], ...]) -> tuple[int, ...]:
    """Indices of `weights` ((share, salt) pairs, shares > 0) from the winner down; the first of equals wins.

    `unit` is written out here: it is most of what a decision costs.
    """
    if len(weights) == 1:
        return (0,)
    scores = []
    for index, (share, candidate_salt) in enumerate(weights):
        x = ((key_hash ^ candidate_salt) + 0x9E3779B97F4A7C15) & _MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
        scores.append((log((((x ^ (x >> 31)) >> 11) + 0.5) * _TO_UNIT) / -share, index))
    scores.sort()
    return tuple([i for _, i in scores])
