"""The sum of answers is shared: each worker is told, within a second, how many the others have given.

The kernel deals queries out by the client's address and port. A farm that a few resolvers ask can have nearly all its
answers given by one worker, so none of them can know the sum by its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from lbdns.server.figures import read_count

PAUSE: Final = 0.25  # s from one telling to the next, of workers and of the main process: half a second in all ...
COSTS: Final = 50.0  # ... or so many times what telling takes, so that it stays below 2 % of a core

#: Pool and policy -> answers in all
Answers = Mapping[tuple[str, str], int]


def write_answers(answers: Answers) -> list[list[str | int]]:
    """As plain data, for msgpack."""
    return [[*key, count] for key, count in answers.items()]


def read_answers(state: Any) -> Answers:
    """What ``write_answers`` wrote. Raises ValueError or TypeError."""
    return {(str(pool), str(policy)): read_count(count) for pool, policy, count in state}


class Sharing:
    """What each worker has answered and what it knows of the others, by the worker's number.

    Sums never fall: what was answered by a process that has ended stays in them. They say how many in all, so that it
    does no harm if a telling is left out.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[int, Answers], bool]) -> None:
        """``tell`` tells a worker what is new of the others' answers; it says whether it could."""
        self._loop, self._tell = loop, tell
        self._own: dict[int, Answers] = {}  # of the processes that are at work
        self._told: dict[int, dict[tuple[str, str], int]] = {}
        self._sum: Counter[tuple[str, str]] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._rest_until = 0.0

    def begin(self, number: int) -> Answers:
        """A process begins: all it has to know."""
        self._own[number] = {}
        self._told[number] = dict(self._sum)
        return self._told[number]

    def lose(self, number: int) -> None:
        """A process has ended."""
        self._own.pop(number, None)
        self._told.pop(number, None)

    def take(self, number: int, answers: Answers) -> None:
        """A worker has given so many answers in all."""
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
        """Tell everybody what is new, then rest: 256 workers and a thousand pools must not take a core."""
        began = self._loop.time()
        self._timer = None
        left_out = False
        for number, told in self._told.items():
            own = self._own[number]
            elsewhere = {key: count - own.get(key, 0) for key, count in self._sum.items()}
            news = {key: count for key, count in elsewhere.items() if count != told.get(key, 0)}
            if news and self._tell(number, news):
                told.update(news)
            elif news:
                left_out = True
        now = self._loop.time()
        self._rest_until = now + max(PAUSE, COSTS * (now - began))
        if left_out:
            self._timer = self._loop.call_at(self._rest_until, self._share)
