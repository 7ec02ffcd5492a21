"""DNS cookies (RFC 7873) in the interoperable format of RFC 9018, and the hash function SipHash-2-4.

A valid cookie proves that the client's address is not forged. A server cookie consists of the version (1), three zero
bytes, the time in seconds (4 bytes) and a hash. The hash covers the client cookie, the server cookie's first 8 bytes
and the client's address.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence
from typing import Final

CLIENT: Final = 8  # bytes of a client cookie
SERVER: Final = 16  # bytes of our server cookies
LENGTHS: Final = frozenset((CLIENT, *range(CLIENT + 8, CLIENT + 33)))  # bytes of the option, RFC 7873 section 4
SECRET: Final = 16  # bytes
_VERSION: Final = b"\1\0\0\0"
_OLDEST: Final = 3600  # s for which a cookie is valid (RFC 9018 section 4.3)
_AHEAD: Final = 300  # s by which the clock of another server with the same secret may be ahead of ours
_RENEW: Final = 1800  # s after which a client gets a new cookie
_REMEMBERED: Final = 10_000  # clients whose cookies are cached: hashing in Python takes 20 us
_TIMES: Final = 2**32  # cookies carry the time modulo this, compared as serial numbers (RFC 1982)
_MASK: Final = 0xFFFFFFFFFFFFFFFF


class ServerCookies:
    """Makes server cookies with the first secret; to allow rotation, accepts cookies made with any secret."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self.secrets = tuple(secrets)
        self._known: dict[tuple[bytes, str], tuple[bytes, bool, float]] = {}

    def answer(self, cookie: bytes, host: str, wall: float) -> tuple[bytes, bool]:
        """Return two values: the data of the response's COOKIE option, and whether the query's cookie was valid.

        ``cookie`` contains the data of the query's COOKIE option; its length must be in LENGTHS. ``host`` is the
        client's address. ``wall`` is the time in Unix seconds.
        """
        known = self._known.get((cookie, host))
        if known is not None and wall < known[2]:
            return known[0], known[1]
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        answer, valid, until = self._make(cookie, host, int(wall))
        self._known[cookie, host] = (answer, valid, until)
        return answer, valid

    def _make(self, cookie: bytes, host: str, wall: int) -> tuple[bytes, bool, float]:
        address = ipaddress.ip_address(host.partition("%")[0]).packed
        client, server = cookie[:CLIENT], cookie[CLIENT:]
        valid = len(server) == SERVER and server[:1] == _VERSION[:1]
        if valid:
            age = _age(int.from_bytes(server[4:8], "big"), wall)
            hashes = [siphash24(secret, client + server[:8] + address) for secret in self.secrets]
            valid = -_AHEAD <= age <= _OLDEST and server[8:] in hashes
            if valid and age <= _RENEW and server[8:] == hashes[0]:
                return cookie, True, wall + _RENEW - age + 1
        begin = _VERSION + (wall % _TIMES).to_bytes(4, "big")
        made = client + begin + siphash24(self.secrets[0], client + begin + address)
        return made, valid, wall + 1


def _age(stamp: int, wall: int) -> int:
    return (wall - stamp + _TIMES // 2) % _TIMES - _TIMES // 2


def siphash24(key: bytes, data: bytes) -> bytes:
    """Return the 8-byte little-endian SipHash-2-4 (Aumasson and Bernstein, 2012) of ``data`` with a 16-byte ``key``."""
    k0, k1 = struct.unpack("<QQ", key)
    v0, v1, v2, v3 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573
    padded = data + bytes(7 - len(data) % 8) + bytes((len(data) & 0xFF,))
    for (word,) in struct.iter_unpack("<Q", padded):
        v0, v1, v2, v3 = _rounds(v0, v1, v2, v3 ^ word, 2)
        v0 ^= word
    v0, v1, v2, v3 = _rounds(v0, v1, v2 ^ 0xFF, v3, 4)
    return (v0 ^ v1 ^ v2 ^ v3).to_bytes(8, "little")


def _rounds(v0: int, v1: int, v2: int, v3: int, count: int) -> tuple[int, int, int, int]:
    for _ in range(count):
        v0 = (v0 + v1) & _MASK
        v1 = ((v1 << 13 | v1 >> 51) & _MASK) ^ v0
        v0 = (v0 << 32 | v0 >> 32) & _MASK
        v2 = (v2 + v3) & _MASK
        v3 = ((v3 << 16 | v3 >> 48) & _MASK) ^ v2
        v0 = (v0 + v3) & _MASK
        v3 = ((v3 << 21 | v3 >> 43) & _MASK) ^ v0
        v2 = (v2 + v1) & _MASK
        v1 = ((v1 << 17 | v1 >> 47) & _MASK) ^ v2
        v2 = (v2 << 32 | v2 >> 32) & _MASK
    return v0, v1, v2, v3
