"""DNS cookies (RFC 7873) as all servers make them alike (RFC 9018): who has one really has its address. Pure.

A server cookie is version 1, three zero bytes, the time in seconds (4 bytes) and SipHash-2-4 of the client cookie,
those 8 bytes and the client's address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final, Protocol

from lbdns.answering.siphash import KEY_LENGTH, siphash24

CLIENT: Final = 8  # bytes of a client cookie
SERVER: Final = 16  # bytes of a server cookie of ours
LENGTHS: Final = frozenset((CLIENT, *range(CLIENT + 8, CLIENT + 33)))  # of the option's data, RFC 7873 section 4
SECRET: Final = KEY_LENGTH
_VERSION: Final = b"\1\0\0\0"
_OLDEST: Final = 3600  # s a cookie is good for (RFC 9018 section 4.3)
_AHEAD: Final = 300  # s that another server's clock may be ahead of ours
_RENEW: Final = 1800  # s after which a client is given a fresh one
_REMEMBERED: Final = 10_000  # clients whose cookies are kept: hashing in pure Python takes 20 us
_TIMES: Final = 2**32  # cookies carry the time modulo this, compared as serial numbers (RFC 1982)


class CookieJar(Protocol):
    """Whoever makes and checks server cookies: ``Cookies``, or the native part."""

    def answer(self, cookie: bytes, host: str, wall: float) -> tuple[bytes, bool]:
        """As ``Cookies.answer``."""


class Cookies:
    """Makes and checks server cookies. The first secret makes, all are accepted: that is how they are rotated."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self.secrets = tuple(secrets)
        self._known: dict[tuple[bytes, str], tuple[bytes, bool, float]] = {}

    def answer(self, cookie: bytes, host: str, wall: float) -> tuple[bytes, bool]:
        """What to answer a COOKIE option with data ``cookie`` from address ``host`` with, and whether it was valid.

        ``cookie`` has one of LENGTHS; ``wall`` is in Unix seconds.
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
    """Seconds from ``stamp`` to ``wall``, negative if it lies ahead."""
    return (wall - stamp + _TIMES // 2) % _TIMES - _TIMES // 2
