"""DNS cookies (RFC 7873, 9018): a client that shows one has been seen to receive at its address.

Any replica verifies any other's, because the secret comes from the key ring that they share; it rotates with it.
"""

from __future__ import annotations

from hashlib import blake2s

from director.core.affinity import KeyRing
from director.dns.memo import Memo
from director.dns.siphash import siphash24

CLIENT_BYTES = 8
SERVER_BYTES = 16
SERVER_BYTES_MIN, SERVER_BYTES_MAX = 8, 32
"""What other servers may have made: not an error, merely not ours."""
STEP_S = 60
"""New cookies carry the time to this step, so that one serves a client's queries for as long."""
RENEW_AFTER_S = 1800
LIFE_S = 3600
AHEAD_S_MAX = 300
COOKIES_MAX = 5_000
"""Of each sort; a resolver has one for each of its addresses."""
_VERSION = b"\x01\x00\x00\x00"


class CookieJar:
    """Makes and verifies server cookies under one key ring."""

    def __init__(self, keyring: KeyRing) -> None:
        self._keys = [_secret(keyring.keys[keyring.current])]
        self._keys += [_secret(key) for name, key in sorted(keyring.keys.items()) if name != keyring.current]
        self._known: Memo[tuple[bytes, bytes], int] = Memo(COOKIES_MAX)
        """(address, whole cookie) → the second it was made in, for cookies that verified."""
        self._made: Memo[tuple[bytes, bytes, int], bytes] = Memo(COOKIES_MAX)

    def check(self, cookie: bytes, source: bytes, now_s: int) -> bool:
        """Whether a whole cookie (client and server part) is ours, for this address, and in time."""
        if len(cookie) != CLIENT_BYTES + SERVER_BYTES or cookie[8:12] != _VERSION:
            return False
        made_s = int.from_bytes(cookie[12:16], "big")
        if not -AHEAD_S_MAX <= now_s - made_s <= LIFE_S:
            return False
        if self._known.get((source, cookie)) is None:
            signed = cookie[:16] + source
            if not any(siphash24(key, signed) == cookie[16:] for key in self._keys):
                return False
            self._known.put((source, cookie), made_s)
        return True

    def answer(self, cookie: bytes, source: bytes, now_s: int, *, valid: bool) -> bytes:
        """The cookie to send: the same while it is young, else a new one."""
        if valid and now_s - int.from_bytes(cookie[12:16], "big") <= RENEW_AFTER_S:
            return cookie
        made_s = now_s - now_s % STEP_S
        key = (source, cookie[:CLIENT_BYTES], made_s)
        made = self._made.get(key)
        if made is None:
            head = cookie[:CLIENT_BYTES] + _VERSION + made_s.to_bytes(4, "big")
            made = head + siphash24(self._keys[0], head + source)
            self._made.put(key, made)
        return made


def _secret(key: bytes) -> bytes:
    """A key of its own for each use of the ring."""
    return blake2s(key, digest_size=16, person=b"dnscooki").digest()
