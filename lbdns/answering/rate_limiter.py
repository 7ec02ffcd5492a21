"""Response rate limiting: limits the number of responses of one kind that a network receives per second. Sans-I/O.

All answers to one question count as the same kind of response. Responses without an entry in the answer table (negative
answers, errors, wildcards) count as one kind per zone and RCODE. Because of these shared limits, querying random names
does not evade the rate limit. A network's limit across all kinds is ``ALL`` times the limit for one kind. Querying many
names in turn therefore does not evade the rate limit. The counters are stored in a table of fixed size, so forged
addresses use no extra memory. If two networks hash to the same slot in the same second, they share one limit.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from lbdns.config.client_limit_sections import RateLimitConfig

SLOTS: Final = 65_536
ALL: Final = 5  # times the limit, across all kinds: a resolver queries only a handful of names in one zone
_EVERY_KIND: Final = b""
MAX_HOSTS: Final = 65_536  # addresses whose network is cached
_EXEMPT: Final = -1


class RateLimiter:
    """Counts responses per network and kind in windows of one second. Addresses are strings, as sockets return them."""

    __slots__ = ("_counts", "_end", "_limit", "_networks", "cut", "dropped", "last", "rules")

    def __init__(self, rules: RateLimitConfig, share: int = 1) -> None:
        """``share`` is the number of processes across which the kernel spreads each network's queries."""
        self.rules = rules
        self._limit = -(-rules.responses_per_second // share)
        self._counts = [0] * SLOTS
        self._end = 0.0  # of the current window, in monotonic seconds
        self._networks: dict[str, int] = {}
        self.dropped = self.cut = 0  # responses not sent, and responses truncated, because of the limit
        self.last = ""  # the last client that was limited

    def tick(self, now: float) -> None:
        """Begin a new window once a second. Call this method before ``count``; ``now`` is in monotonic seconds."""
        if now >= self._end:
            self._end = now + 1.0
            self._counts = [0] * SLOTS

    def count(self, host: str, kind: bytes) -> int:
        """Count one response of ``kind`` to ``host``, and return the number of responses over the limit."""
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
            return over  # this response is not sent, so it does not count across all kinds
        at = hash((network, _EVERY_KIND)) % SLOTS
        counts[at] += 1
        return max(0, counts[at] - ALL * self._limit)

    def drops(self, over: int, host: str) -> bool:
        """Return whether to drop a response over the limit; every ``slip``-th such response is truncated instead."""
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
            # The lowest bit distinguishes ::/56 from 0.0.0.0/24
            found = int(address) >> (address.max_prefixlen - prefix) << 1 | (address.version == 4)
        if len(self._networks) >= MAX_HOSTS:
            self._networks.clear()
        self._networks[host] = found
        return found
