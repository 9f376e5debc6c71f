"""A session's signed claim to its region.

Problem: a conversation's KV cache lives in one region, and a replica that never saw the session must send it there.
Mechanism: the answer carries `1.<key id>.<region>.<expiry, Unix s, base 36>.<route>.<signature>`; the signature is
HMAC-SHA256 over everything before it, cut to 128 bits. Nothing else is in it, so equal answers carry equal tokens, and
any replica can make and check one. Expiry is rounded up to `EXPIRY_STEP_S`, so that one token serves many answers.

A claim is only a claim: it is honoured after the filters, never instead of them. A token for another route (another
tenant policy, residency, model, version or adapter) is foreign. The client zone is left out: a phone that changes
networks keeps its cache.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from hashlib import blake2b
from typing import Literal, NamedTuple

from msgspec import Struct

from director.core.request import RouteKey

EXPIRY_STEP_S = 5
TOKEN_LENGTH_MAX = 256

Verdict = Literal["valid", "expired", "forged", "foreign"]


class KeyRing(Struct, frozen=True):
    """Key id → secret. `current` signs and every key verifies: tokens survive a rotation until the old key goes."""

    current: str
    keys: dict[str, bytes]


class Claim(NamedTuple):
    verdict: Verdict
    region: str = ""
    expires_s: int = 0


def route_mark(route: RouteKey) -> str:
    """What stands for a route in a token: 60 bits of everything but the client zone."""
    text = "\x1f".join(
        (route.tenant, "\x1e".join(route.residency), route.model, route.version, route.adapter or "\x1e")
    )
    return urlsafe_b64encode(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=9).digest()).decode()


def expiry_s(now_ms: int, ttl_s: float) -> int:
    """Unix seconds at which a token made at `now_ms` expires: at least `ttl_s` on, at most `EXPIRY_STEP_S` more."""
    return (int(now_ms / 1000 + ttl_s) // EXPIRY_STEP_S + 1) * EXPIRY_STEP_S


def issue(keyring: KeyRing, region: str, expires_s: int, mark: str) -> str:
    body = f"1.{keyring.current}.{region}.{_base36(expires_s)}.{mark}"
    return f"{body}.{_sign(keyring.keys[keyring.current], body)}"


def verify(keyring: KeyRing, token: str, mark: str, now_ms: int) -> Claim:
    """What a presented token is worth. Anything that we did not sign is `forged`; nothing raises."""
    if len(token) > TOKEN_LENGTH_MAX or not token.isascii():
        return Claim("forged")
    parts = token.split(".")
    if len(parts) != 6 or parts[0] != "1" or (secret := keyring.keys.get(parts[1])) is None:
        return Claim("forged")
    body, _, signature = token.rpartition(".")
    if not hmac.compare_digest(_sign(secret, body), signature):
        return Claim("forged")
    expires_s = int(parts[3], 36)
    if expires_s * 1000 <= now_ms:
        return Claim("expired", parts[2], expires_s)
    if parts[4] != mark:
        return Claim("foreign", parts[2], expires_s)
    return Claim("valid", parts[2], expires_s)


def _sign(secret: bytes, body: str) -> str:
    return urlsafe_b64encode(hmac.digest(secret, body.encode(), "sha256")[:16]).decode().rstrip("=")


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"
