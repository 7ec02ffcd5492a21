"""The answer tally: a pool's answer rates, each member's charge (the requests expected there), and whether a crowd is
arriving."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from lbdns.choosing.moving_averages import FadingCounts, WindowRate, selected
from lbdns.choosing.observed_pool import AVERAGE
from lbdns.choosing.other_servers import OtherServers
from lbdns.policies.plan import Selections

JUST_NOW: Final = 1.0  # s: four times the period at which processes exchange their answer counts


class AnswerTally:
    """Counts the answers and selections of one pool.

    ``servers`` is the number of DNS servers that answer for the pool. The answers of servers that are heard over a bus
    are counted (``others``). The counts are multiplied by a factor that stands for the servers that are not heard.
    """

    def __init__(self, members: int, servers: int) -> None:
        self.servers = servers
        self.others = OtherServers(members)
        self._by_policy: dict[str, WindowRate] = {}  # of all processes of this server, and of the servers heard
        self._own = WindowRate(AVERAGE)  # of this process, all policies
        self.charges = [0.0] * members  # requests expected from the selections since each member's report
        self.recent = FadingCounts(members, AVERAGE)  # recent selections of each member, all policies
        self._fresh: frozenset[int] = frozenset()  # members with a new report in the current round

    def take_over(self, old: AnswerTally, places: Sequence[int | None]) -> None:
        """Continue from the counts in ``old``.

        ``places`` lists each member's index in ``old``, or None for a new member.
        """
        self.charges = [0.0 if place is None else old.charges[place] for place in places]
        self.recent.take_over(old.recent, places)
        self._by_policy, self._own = old._by_policy, old._own
        self.others.take_over(old.others, places)

    def answers(self, policy: str) -> WindowRate:
        """Return the answer rate of ``policy``, summed over all processes of this server and the servers heard."""
        return self._by_policy.setdefault(policy, WindowRate(AVERAGE))

    def start_round(self, fresh: Iterable[int]) -> None:
        """Reset the charges of the members in ``fresh``, because their new reports already reflect the selections."""
        self._fresh = frozenset(fresh)
        for i in self._fresh:
            self.charges[i] = 0.0
        self.others.start_round(self._fresh)

    def add_own(self, policy: str, selections: Selections | None, now: float) -> None:
        """Count the ``selections`` from this process's previous plan of ``policy``; pass None if there was no plan.

        Members with a new report are not charged: the selections were made before this report arrived.
        """
        self.answers(policy).add(now, sum(selections.counts) if selections else 0)
        if selections is None:
            return
        self._own.add(now, sum(selections.counts))
        self.recent.add(selections.counts, now)
        multiplier = self._multiplier(now, self.others.answers(now))
        for i, count in selected(selections.counts):
            if i not in self._fresh:
                self.charges[i] += count * multiplier

    def add_others(
        self, server: int, policy: str, counts: Sequence[int], seconds: float, reported: Sequence[float], now: float
    ) -> None:
        """Count the answers by ``policy`` that another server has sent in the last ``seconds`` seconds, by member.

        ``reported`` contains the time of each member's newest report.
        """
        self.answers(policy).add(now, sum(counts))
        self.others.add(server, counts, seconds, reported, now)

    def all_charges(
        self, capacities: Sequence[float], reported: Sequence[float], usable: Collection[int], now: float
    ) -> list[float]:
        """Return each member's charge, from the answers of all servers since its newest report.

        ``usable`` lists the members that may be selected. The other parameters are in the pool's order.
        """
        if not self.others.have_claims:
            return self.charges.copy()
        own = (self._every(now) - self.others.answers(now)) / AVERAGE
        claimed = self.others.charges(capacities, reported, usable, own, now)
        factor = self.unheard_factor(now)
        return [mine + factor * theirs for mine, theirs in zip(self.charges, claimed, strict=True)]

    def servers_known(self, now: float) -> int:
        """Return how many DNS servers answer for the pool: as configured, or those that are heard, if they are more."""
        return max(self.servers, 1 + self.others.number(now))

    def unheard_factor(self, now: float) -> float:
        """Return the number of DNS servers, divided by the number of those whose answers are counted."""
        return self.servers_known(now) / (1 + self.others.number(now))

    def multiplier(self, now: float) -> float:
        """Return the number of answers from all processes of all servers, divided by the number from this process."""
        return self._multiplier(now, 0)

    def _multiplier(self, now: float, left_out: int) -> float:
        own = self._own.count(now)
        factor = self.unheard_factor(now)
        return factor * max(1.0, (self._every(now) - left_out) / own) if own else factor

    def _every(self, now: float) -> int:
        return sum(answers.count(now) for answers in self._by_policy.values())

    def rate(self, policy: str, now: float) -> float:
        """Return the answer rate (answers/s) of ``policy``, summed over all DNS servers and averaged over 10 s."""
        return self.answers(policy).rate(now) * self.unheard_factor(now)

    def recent_rate(self, policy: str, now: float) -> float:
        """Return the answer rate of ``policy``, like ``rate``, but averaged over only 1 s while a crowd is arriving."""
        return self.answers(policy).recent_rate(now, JUST_NOW) * self.unheard_factor(now)

    def crowd_rate(self, now: float) -> float:
        """Return the total answers/s of the policies whose rates show that a crowd has just arrived.

        The total is 0 if there are no such policies.
        """
        rates = [(answers.rate(now), answers.recent_rate(now, JUST_NOW)) for answers in self._by_policy.values()]
        return self.unheard_factor(now) * sum(recent for average, recent in rates if recent > average)
