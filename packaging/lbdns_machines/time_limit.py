"""Bounds how long a part of a run may take: after the limit, the main thread gets an exception."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeLimitReached(BaseException):
    """A part took longer than its limit. Not a subclass of Exception, so that a step does not record it as its own
    failure."""


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Raise TimeLimitReached in the main thread if the body takes longer than ``seconds``; ``what`` names the body's
    work.

    Limits must not be nested.
    """

    def reached(number: int, frame: FrameType | None) -> None:
        raise TimeLimitReached(f"{what} takes longer than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, reached)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
