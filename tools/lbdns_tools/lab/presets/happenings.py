"""What happens to a farm while it is measured: events at their time, and who is handed out meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

from lbdns.errors import LbdnsError

LOOK_S: Final = 0.5  # between two looks at what was handed out
END_S: Final = 40.0  # an event that has begun may take; Apache is given 30 s to start

Answers = tuple[float, Mapping[str, int]]  # Unix time, and how often each member has been handed out since the start


@dataclass(frozen=True, slots=True)
class Event:
    """``do`` something so many seconds after the beginning."""

    at_s: float
    name: str
    do: Callable[[], object]


class Happenings:
    """Context manager: does the events in a thread of its own, in their order, and looks at ``answers`` in between.

    ``done`` has the Unix times at which each event had been done. What is left when the context is left isn't done any
    more; what went wrong is raised then.
    """

    def __init__(self, events: Sequence[Event], answers: Callable[[], Mapping[str, int]]) -> None:
        self.done: dict[str, float] = {}
        self.seen: list[Answers] = []
        self._events = sorted(events, key=lambda event: event.at_s)
        self._answers = answers
        self._over = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="happenings", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._over.set()
        self._thread.join(END_S)
        if error is not None:
            return
        if self._thread.is_alive():
            raise LbdnsError(f"what was to happen during a measurement had not ended {END_S:g} s after it")
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._happen(time.monotonic())
        except Exception as error:
            self._error = error

    def _happen(self, begin: float) -> None:
        left = list(self._events)
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
        # The time is that of the moment before: nothing that is counted was handed out later than the next look's
        self.seen.append((time.time(), dict(self._answers())))


def last_given(seen: Sequence[Answers], member: str, since: float) -> float | None:
    """The seconds after ``since`` until it was handed out no more for some time; None if nothing was seen after it.

    It is told as the end of the last look by which its count had grown, so up to a look too late; 0.0 if it never grew.
    """
    later = [(moment, answers.get(member, 0)) for moment, answers in seen if moment >= since]
    if not later:
        return None
    grown = [moment for (_, before), (moment, count) in pairwise(later) if count > before]
    return (grown[-1] - since) if grown else 0.0


def first_given(seen: Sequence[Answers], member: str, since: float) -> float | None:
    """The seconds after ``since`` until it was handed out again; None if it wasn't."""
    later = [(moment, answers.get(member, 0)) for moment, answers in seen if moment >= since]
    for (_, before), (moment, count) in pairwise(later):
        if count > before:
            return moment - since
    return None
