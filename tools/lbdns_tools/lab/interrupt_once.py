"""Handlers for Ctrl-C and SIGTERM that interrupt once and let the clean-up finish."""

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
    """Raise KeyboardInterrupt at the first Ctrl-C or SIGTERM only, so that later ones cannot stop a lab's removal."""
    interrupted = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            print("already shutting down; this takes a few seconds", file=sys.stderr)
            return
        interrupted = True
        raise KeyboardInterrupt

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
