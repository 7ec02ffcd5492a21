"""The answers given for a pool: rates by policy, the charge on each member, and crowds that have just arrived."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lbdns.choosing.moving_averages import FadingCounts, WindowRate
from lbdns.choosing.observed_pool import AVERAGE
from lbdns.policies.plan import Selections

JUST_NOW: Final = 1.0  # s: four times the period at which processes exchange their answer counts


class AnswerTally:
    """Counts of one pool's answers and selections.

    ``servers`` is the number of DNS servers that answer for the pool. Each of them knows only the answers of its own
    processes, so counts are multiplied by that number.
    """

    def __init__(self, members: int, servers: int) -> None:
        self.servers = servers
        self._by_policy: dict[str, WindowRate] = {}  # of all processes of this server
        self._own = WindowRate(AVERAGE)  # of this process, all policies
        self.charges = [0.0] * members  # requests expected from the selections since each member's report
        self.recent = FadingCounts(members, AVERAGE)  # recent selections of each member, all policies
        self._fresh: frozenset[int] = frozenset()  # members whose report is as new as the present plans

    def take_over(self, old: AnswerTally, places: Sequence[int | None]) -> None:
        """Continue from the counts of ``old``; ``places`` are the members' indexes there, None if new."""
        self.charges = [0.0 if place is None else old.charges[place] for place in places]
        self.recent.take_over(old.recent, places)
        self._by_policy, self._own = old._by_policy, old._own

    def answers(self, policy: str) -> WindowRate:
        """Return the answers by ``policy`` that all processes of this server gave."""
        return self._by_policy.setdefault(policy, WindowRate(AVERAGE))

    def start_round(self, fresh: Iterable[int]) -> None:
        """Drop the charges of the members with these indexes, whose new reports include the effect of selections."""
        self._fresh = frozenset(fresh)
        for i in self._fresh:
            self.charges[i] = 0.0

    def add_own(self, policy: str, selections: Selections | None, now: float) -> None:
        """Count what this process selected from its previous plan of ``policy``, None if it had no plan.

        The selections came before the present reports, so they charge only members without a new report.
        """
        self.answers(policy).add(now, sum(selections.counts) if selections else 0)
        if selections is None:
            return
        self._own.add(now, sum(selections.counts))
        self.recent.add(selections.counts, now)
        multiplier = self.multiplier(now)
        for i, count in enumerate(selections.counts):
            if count and i not in self._fresh:
                self.charges[i] += count * multiplier

    def multiplier(self, now: float) -> float:
        """Return how many answers all processes and servers give per answer of this process."""
        own = self._own.count(now)
        every = sum(answers.count(now) for answers in self._by_policy.values())
        return self.servers * max(1.0, every / own) if own else float(self.servers)

    def rate(self, policy: str, now: float) -> float:
        """Return the answers/s by ``policy`` of all DNS servers together, as a 10 s average."""
        return self.answers(policy).rate(now) * self.servers

    def recent_rate(self, policy: str, now: float) -> float:
        """Return the answers/s by ``policy`` of the last second if a crowd has just arrived, else the average."""
        return self.answers(policy).recent_rate(now, JUST_NOW) * self.servers

    def crowd_rate(self, now: float) -> float:
        """Return the answers/s of the policies by which a crowd has just arrived; 0 if none has."""
        rates = [(answers.rate(now), answers.recent_rate(now, JUST_NOW)) for answers in self._by_policy.values()]
        return self.servers * sum(recent for average, recent in rates if recent > average)
