"""Waits for a condition instead of a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], longest: float = 20.0) -> None:
    """Return as soon as ``condition`` holds; fail after ``longest`` seconds."""
    end = time.monotonic() + longest
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)
