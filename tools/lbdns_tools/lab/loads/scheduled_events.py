"""Runs scheduled events, such as a host's failure, during a measurement, and counts each member's answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

from lbdns_shared.errors import LbdnsError

LOOK_S: Final = 0.5  # interval at which the answer counts are read
END_S: Final = 40.0  # s that an event may take once started; Apache has 30 s to start

Answers = tuple[float, Mapping[str, int]]  # Unix time, and how often answers have named each member so far


@dataclass(frozen=True, slots=True)
class ScheduledEvent:
    """A scheduled call of ``do``. ``at_s`` is the time in seconds after the start of the context."""

    at_s: float
    name: str
    do: Callable[[], object]


class ScheduledEvents:
    """A context manager that runs events in a thread and regularly reads the number of answers per member.

    ``done`` maps each event's name to the Unix time at which the event was completed. ``seen`` contains the answer
    counts and the times at which they were read. Leaving the context cancels the remaining events. If an event has
    failed, leaving the context raises its error.
    """

    def __init__(self, events: Sequence[ScheduledEvent], answers: Callable[[], Mapping[str, int]]) -> None:
        self.done: dict[str, float] = {}
        self.seen: list[Answers] = []
        self._events = sorted(events, key=lambda event: event.at_s)
        self._answers = answers
        self._over = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="scheduled-events", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._over.set()
        self._thread.join(END_S)
        if error is not None:
            return
        if self._thread.is_alive():
            raise LbdnsError(f"a scheduled event was still running {END_S:g} s after the end of the measurement")
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._take_place(time.monotonic(), list(self._events))
        except Exception as error:
            self._error = error

    def _take_place(self, begin: float, left: list[ScheduledEvent]) -> None:
        while not self._over.is_set():
            passed = time.monotonic() - begin
            if left and passed >= left[0].at_s:
                event = left.pop(0)
                event.do()
                self.done[event.name] = time.time()
                self._look()
                continue
            self._look()
            wait_s = LOOK_S if not left else min(LOOK_S, begin + left[0].at_s - time.monotonic())
            self._over.wait(max(0.0, wait_s))

    def _look(self) -> None:
        # Take the time before the counts: answers first counted by the next read were then sent after this time
        self.seen.append((time.time(), dict(self._answers())))


def last_given(seen: Sequence[Answers], member: str, since: float) -> float | None:
    """Return the time in seconds from ``since`` until answers stopped naming ``member``, or None if no counts were read
    after ``since``.

    The result is the time of the last read at which the count of these answers had increased. It may be up to LOOK_S
    too high. If the count never increased, the result is 0.0.
    """
    if all(moment < since for moment, _ in seen):
        return None
    return max(_growth(seen, member, since), default=0.0)


def first_given(seen: Sequence[Answers], member: str, since: float) -> float | None:
    """Return the time in seconds from ``since`` until an answer named ``member`` again, or None if no answer did."""
    return min(_growth(seen, member, since), default=None)


def _growth(seen: Sequence[Answers], member: str, since: float) -> list[float]:
    """Return the times of the reads at which the count of ``member`` had increased, in seconds after ``since``."""
    later = [(moment, answers.get(member, 0)) for moment, answers in seen if moment >= since]
    return [moment - since for (_, before), (moment, count) in pairwise(later) if count > before]
