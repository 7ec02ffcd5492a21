"""The counters of a worker pool: those of its workers, of processes that have ended, and their sum. Sans-I/O."""

from __future__ import annotations

from collections import Counter

from lbdns.counting.answer_counters import NO_ANSWERS, NO_COUNTS, AnswerCounters


class WorkerCounters:
    """Adds up what workers report. No sum ever falls, although workers end and begin again at zero."""

    def __init__(self) -> None:
        self._past: AnswerCounters = NO_COUNTS  # of processes that have ended
        self._by_worker: dict[int, AnswerCounters] = {}
        self._sum: AnswerCounters | None = None  # None: to be added up
        self._by_pool: dict[str, Counter[str]] | None = None  # its answers; None: the same

    def take(self, number: int, counters: AnswerCounters) -> None:
        self._by_worker[number] = counters
        self._sum = self._by_pool = None

    def end(self, number: int) -> None:
        """Keep the counters of a process that has ended."""
        self._past += self._by_worker.pop(number, NO_COUNTS).ended()
        self._sum = self._by_pool = None

    def sum(self) -> AnswerCounters:
        """Return the counters of all processes, past and present."""
        if self._sum is None:
            self._sum = sum(self._by_worker.values(), self._past)
        return self._sum

    def answers(self, pool: str) -> Counter[str]:
        """Return how often each member of a pool was selected, by full name."""
        if self._by_pool is None:
            self._by_pool = self.sum().by_pool()
        return self._by_pool.get(pool, NO_ANSWERS)
