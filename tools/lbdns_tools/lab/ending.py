"""Being told to end: once is enough, and then there is time to tidy up."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ends_once() -> Iterator[None]:
    """Ctrl-C or SIGTERM raises KeyboardInterrupt once; the next only says so: what removes a lab must not be ended."""
    told = False

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal told
        if told:
            print("ending already; this takes some seconds", file=sys.stderr)
            return
        told = True
        raise KeyboardInterrupt

    before = {number: signal.signal(number, hear) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
