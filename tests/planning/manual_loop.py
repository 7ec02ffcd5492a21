"""An event loop whose clock and callbacks a test drives by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast


class ManualLoop:
    """Has only the methods of an event loop that the planner needs."""

    def __init__(self) -> None:
        self.now = 1000.0  # monotonic seconds
        self._handles: list[tuple[float, asyncio.TimerHandle]] = []

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        return cast(asyncio.AbstractEventLoop, self)

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        return self.call_at(self.now, callback, *args)

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args)

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self.as_loop)
        self._handles.append((when, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def run_turn(self) -> bool:
        """Run the first callback that is due. Return whether there was one."""
        self._handles = [(when, handle) for when, handle in self._handles if not handle.cancelled()]
        due = [item for item in self._handles if item[0] <= self.now]
        if not due:
            return False
        first = min(due, key=lambda item: item[0])
        self._handles.remove(first)
        first[1]._run()
        return True

    def run_all(self) -> None:
        """Run all callbacks that are due, and those that they make due."""
        while self.run_turn():
            pass
