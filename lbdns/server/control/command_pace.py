"""Command pace: limits control commands to a share of the event loop's time, regardless of the number of clients."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from lbdns.process.duty_cycle import DutyCycle

#: At most 500 turns per second, which take at most a fiftieth of the event loop's time
CYCLE: Final = DutyCycle(49.0, shortest=0.002, longest=1.0)


class CommandPace:
    """Starts commands and releases replies one at a time, with a pause after each, according to ``cycle``."""

    def __init__(self, cycle: DutyCycle = CYCLE) -> None:
        self._cycle = cycle
        self._lock = asyncio.Lock()
        self._opens = 0.0  # loop time

    async def turn(self) -> None:
        """Wait until the next command or reply is due.

        The caller must then start the command, or send the reply, without a pause.
        """
        async with self._lock:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(0)  # _pause runs first, even if the previous command has not waited for anything
            await asyncio.sleep(max(0.0, self._opens - loop.time()))
            # The event loop calls this as soon as the caller waits for something, and before any other turn
            loop.call_soon(self._pause, time.thread_time())

    def _pause(self, began: float) -> None:
        self._opens = asyncio.get_running_loop().time() + self._cycle.pause_after(time.thread_time() - began)
