"""The counters of a worker pool: those of its workers, of processes that have ended, and their sum. Sans-I/O."""

from __future__ import annotations

from collections import Counter
from typing import Final

from lbdns.counting.answer_counters import NO_ANSWERS, NO_COUNTS, AnswerCounters

_NONE: Final = (NO_COUNTS, NO_COUNTS.by_pool())


class WorkerCounters:
    """Adds up what workers report. No sum ever falls, although workers end and begin again at zero."""

    def __init__(self) -> None:
        self._past: AnswerCounters = NO_COUNTS  # of processes that have ended
        self._by_worker: dict[int, AnswerCounters] = {}
        self._sum: AnswerCounters | None = None  # None: to be added up
        self._by_pool = _NONE  # a sum, and its answers by pool

    def take(self, number: int, counters: AnswerCounters) -> None:
        """Replace the counters of the process of worker ``number``."""
        self._by_worker[number] = counters
        self._sum = None

    def end(self, number: int) -> None:
        """Keep the counters of a process that has ended."""
        self._past += self._by_worker.pop(number, NO_COUNTS).ended()
        self._sum = None

    def sum(self) -> AnswerCounters:
        """Return the counters of all processes, past and present."""
        if self._sum is None:
            self._sum = sum(self._by_worker.values(), self._past)
        return self._sum

    def answers(self, pool: str) -> Counter[str]:
        """Return how often each member of a pool was selected, by full name."""
        counters = self.sum()
        if self._by_pool[0] is not counters:
            self._by_pool = (counters, counters.by_pool())
        return self._by_pool[1].get(pool, NO_ANSWERS)
