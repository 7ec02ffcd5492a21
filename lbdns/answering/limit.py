"""Response rate limiting: a network is given so many alike responses a second. Pure: time is an argument.

Alike are the answers to one question, and for what has no compiled answer (negative answers, errors, wildcards) those
of one zone with one RCODE: somebody who makes up names gets no more. Of all kinds together a network is given a few
times as many: somebody who asks for one name after the other gains nothing either. Counting takes two slots of a table
of fixed size, so forged addresses cost no memory; two networks that share a slot by chance share a limit for that
second.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from lbdns.config.rate_limit import RateLimitConfig

SLOTS: Final = 65_536
ALL: Final = 5  # times the limit: of all kinds together. A resolver asks for a handful of names of one zone
_EVERY_KIND: Final = b""
MAX_HOSTS: Final = 65_536  # addresses whose network is remembered
_EXEMPT: Final = -1


class Limiter:
    """Counts alike responses by network in windows of a second."""

    __slots__ = ("_counts", "_end", "_limit", "_networks", "cut", "dropped", "last", "rules")

    def __init__(self, rules: RateLimitConfig, share: int = 1) -> None:
        """``share``: processes over which the kernel spreads the queries of each network."""
        self.rules = rules
        self._limit = -(-rules.responses_per_second // share)
        self._counts = [0] * SLOTS
        self._end = 0.0  # of the window, monotonic seconds
        self._networks: dict[str, int] = {}
        self.dropped = self.cut = 0  # responses not given, and given as "ask over TCP" instead
        self.last = ""  # the host limited last

    def tick(self, now: float) -> None:
        """``now`` is in monotonic seconds; once a second everybody begins anew."""
        if now >= self._end:
            self._end = now + 1.0
            self._counts = [0] * SLOTS

    def count(self, host: str, kind: bytes) -> int:
        """Count one response of ``kind`` to ``host``: by how much that is over the limit, 0 if it isn't."""
        if not self._limit:
            return 0
        network = self._networks.get(host)
        if network is None:
            network = self._network(host)
        if network == _EXEMPT:
            return 0
        counts = self._counts
        at = hash((network, kind)) % SLOTS
        counts[at] += 1
        over = counts[at] - self._limit
        if over > 0:
            return over  # and no part of all that are given
        at = hash((network, _EVERY_KIND)) % SLOTS
        counts[at] += 1
        return max(0, counts[at] - ALL * self._limit)

    def drops(self, over: int, host: str) -> bool:
        """What becomes of a response that is ``over`` the limit: dropped, or else cut."""
        self.last = host
        slip = self.rules.slip
        if slip and over % slip == 0:
            self.cut += 1
            return False
        self.dropped += 1
        return True

    def _network(self, host: str) -> int:
        address = ipaddress.ip_address(host.partition("%")[0])
        if any(address in network for network in self.rules.exempt):
            found = _EXEMPT
        else:
            prefix = self.rules.ipv4_prefix if address.version == 4 else self.rules.ipv6_prefix
            # The version keeps ::/56 and 0.0.0.0/24 apart
            found = int(address) >> (address.max_prefixlen - prefix) << 1 | (address.version == 4)
        if len(self._networks) >= MAX_HOSTS:
            self._networks.clear()
        self._networks[host] = found
        return found
