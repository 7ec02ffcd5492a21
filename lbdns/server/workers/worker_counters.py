"""Adds up the counters of all workers, and sends each worker the number of answers from all other workers.

The kernel distributes queries according to the client's address and port. If only a few resolvers send queries, one
worker may send nearly all answers. A worker therefore cannot infer the total number of answers from its own answers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from lbdns.counting.answer_counters import NO_ANSWERS, NO_COUNTS, AnswerCounters, read_count
from lbdns.process.duty_cycle import DutyCycle

#: Workers and the main process each send at most four times a second, and spend less than 2 % of a core on sending
SHARING: Final = DutyCycle(50.0, shortest=0.25)

#: Pool and policy -> number of answers
AnswerTotals = Mapping[tuple[str, str], int]


class WorkerCounters:
    """Adds up the counters that workers report. The sums never decrease, although each new process starts at zero."""

    def __init__(self) -> None:
        self._past: AnswerCounters = NO_COUNTS  # of processes that have ended
        self._by_worker: dict[int, AnswerCounters] = {}
        self._sum: AnswerCounters | None = None  # None: to be added up
        self._by_pool: dict[str, Counter[str]] | None = None  # the answers in the sum; None: to be computed

    def take(self, number: int, counters: AnswerCounters) -> None:
        """Replace the counters of worker ``number``'s current process."""
        self._by_worker[number] = counters
        self._sum = self._by_pool = None

    def end(self, number: int) -> None:
        """Add the counters of worker ``number``'s process, which has ended, to those of past processes."""
        self._past += self._by_worker.pop(number, NO_COUNTS).ended()
        self._sum = self._by_pool = None

    def sum(self) -> AnswerCounters:
        """Return the sums of the counters of all processes, whether running or ended."""
        if self._sum is None:
            self._sum = sum(self._by_worker.values(), self._past)
        return self._sum

    def answers(self, pool: str) -> Counter[str]:
        """Return how many times each member of a pool was selected, keyed by full name."""
        if self._by_pool is None:
            self._by_pool = self.sum().by_pool()
        return self._by_pool.get(pool, NO_ANSWERS)

    def site_answers(self, pool: str) -> Mapping[tuple[str, str], int]:
        """Return a pool's answers, keyed by the order of the client's sites and the site of the member."""
        return self.sum().site_answers_of(pool)


def write_answers(answers: AnswerTotals) -> list[list[str | int]]:
    """Return the totals as plain data that msgpack can encode."""
    return [[*key, count] for key, count in answers.items()]


def read_answers(state: Any) -> AnswerTotals:
    """Return the totals that ``write_answers`` encoded. Raises ValueError or TypeError if ``state`` is not valid."""
    return {(str(pool), str(policy)): read_count(count) for pool, policy, count in state}


class AnswerSharing:
    """Sends each worker the total number of answers from all other workers, by pool and policy.

    Totals never decrease, because they include the answers of processes that have ended. If a message cannot be sent,
    no information is lost, because the next message contains newer totals.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[int, AnswerTotals], bool]) -> None:
        """``send`` sends the changed totals to one worker, and returns whether sending succeeded."""
        self._loop, self._send = loop, send
        self._own: dict[int, AnswerTotals] = {}  # by worker that has a process
        self._sent: dict[int, dict[tuple[str, str], int]] = {}
        self._sum: Counter[tuple[str, str]] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._rest_until = 0.0

    def begin(self, number: int) -> AnswerTotals:
        """Add a new process for worker ``number``, and return the totals to send to that process."""
        self._own[number] = {}
        self._sent[number] = dict(self._sum)
        return self._sent[number]

    def knows(self, number: int) -> bool:
        """Return whether ``begin`` has added the current process of worker ``number``."""
        return number in self._sent

    def lose(self, number: int) -> None:
        """Remove worker ``number``'s process, which has ended. The totals still include its answers."""
        self._own.pop(number, None)
        self._sent.pop(number, None)

    def take(self, number: int, answers: AnswerTotals) -> None:
        own = self._own.get(number)
        if own is None or own == answers:
            return
        for key, count in answers.items():
            self._sum[key] += count - own.get(key, 0)
        self._own[number] = answers
        if self._timer is None:
            self._timer = self._loop.call_at(max(self._rest_until, self._loop.time()), self._share)

    def stop(self) -> None:
        self._own.clear()
        if self._timer:
            self._timer.cancel()

    def _share(self) -> None:
        """Send each worker the changed totals.

        Then pause, so that even 256 workers with 1000 pools do not saturate a core.
        """
        began = self._loop.time()
        self._timer = None
        left_out = False
        for number, sent in self._sent.items():
            own = self._own[number]
            elsewhere = {key: count - own.get(key, 0) for key, count in self._sum.items()}
            changed = {key: count for key, count in elsewhere.items() if count != sent.get(key, 0)}
            if changed and self._send(number, changed):
                sent.update(changed)
            elif changed:
                left_out = True
        now = self._loop.time()
        self._rest_until = now + SHARING.pause_after(now - began)
        if left_out:
            self._timer = self._loop.call_at(self._rest_until, self._share)
