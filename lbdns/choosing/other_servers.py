"""The answers of one pool that other DNS servers state over a bus, and the charges that follow from them. Sans-I/O.

A server could lie about its answers, so that the others avoid all members but one. Statements can therefore move no
member's charge further from the charges of the other members than this server's own answers can compensate.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from typing import Final

from lbdns.choosing.moving_averages import WindowRate
from lbdns.choosing.observed_pool import AVERAGE

MIN_PERIOD: Final = 0.01  # seconds: the answers of a shorter period count as sent just now
LONGEST: Final = 60.0  # seconds: a member that has not reported for longer, or never, is treated as if it had


class OtherServers:
    """What other servers have answered for one pool. Times are in monotonic seconds."""

    def __init__(self, members: int) -> None:
        self._answers = WindowRate(AVERAGE)  # of all other servers, all policies
        self._claims = [0.0] * members  # by member: the answers that named it since its report
        self._heard: frozenset[int] = frozenset()
        self._named: dict[int, float] = {}  # by server: when it last answered for this pool

    def take_over(self, old: OtherServers, places: Sequence[int | None]) -> None:
        """Continue from ``old``. ``places`` lists each member's index in ``old``, or None for a new member."""
        self._claims = [0.0 if place is None else old._claims[place] for place in places]
        self._answers, self._heard, self._named = old._answers, old._heard, old._named

    def hear(self, servers: frozenset[int]) -> None:
        """Record which servers are heard now."""
        self._heard = servers
        self._named = {server: when for server, when in self._named.items() if server in servers}

    def number(self, now: float) -> int:
        """Return how many of the servers that are heard have answered for this pool in the last 10 s."""
        return sum(now - when < AVERAGE for when in self._named.values())

    def answers(self, now: float) -> int:
        """Return the answers of the last 10 s."""
        return self._answers.count(now)

    def start_round(self, fresh: Collection[int]) -> None:
        """Reset the claims on the members in ``fresh``, because their new reports already reflect these answers."""
        for i in fresh:
            self._claims[i] = 0.0

    def add(self, server: int, counts: Sequence[int], seconds: float, reported: Sequence[float], now: float) -> None:
        """Count answers that ``server`` has sent in the last ``seconds`` seconds, by member.

        ``reported`` contains the time of each member's newest report. Of the answers in a period during which a report
        arrived, only those after the report are charged.
        """
        if server in self._heard:
            self._named[server] = now
        self._answers.add(now, sum(counts))
        period = max(seconds, MIN_PERIOD)
        for i, count in enumerate(counts):
            if count:
                self._claims[i] += count * min(1.0, max(0.0, (now - reported[i]) / period))

    @property
    def have_claims(self) -> bool:
        """Return whether another server has answered for this pool since the members' newest reports."""
        return any(self._claims)

    def charges(
        self, capacities: Sequence[float], reported: Sequence[float], usable: Collection[int], own: float, now: float
    ) -> list[float]:
        """Return the charge of each member from the other servers' answers since its newest report.

        ``own`` is the rate of this server's own answers (answers/s). The answers per second and capacity that the
        servers claim for a member may differ from the median of the ``usable`` members by at most the rate of this
        server's answers per capacity. A liar can thereby at most double a member's share, roughly.
        """
        if not self.have_claims:
            return [0.0] * len(self._claims)
        seconds = [min(LONGEST, max(0.0, now - since)) for since in reported]
        rates = [
            claim / (capacity * lasted) if lasted > 0 and capacity > 0 else 0.0
            for claim, capacity, lasted in zip(self._claims, capacities, seconds, strict=True)
        ]
        known = [i for i in usable if seconds[i] > 0 and capacities[i] > 0]
        if not known:
            return [0.0] * len(rates)
        middle = statistics.median([rates[i] for i in known])
        most = own / sum(capacities[i] for i in known)
        return [
            capacity * lasted * max(0.0, middle + min(most, max(-most, rate - middle)))
            for rate, capacity, lasted in zip(rates, capacities, seconds, strict=True)
        ]
