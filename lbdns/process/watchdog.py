"""Sends keep-alive messages to the service manager's watchdog (WatchdogSec= of systemd.service(5))."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Mapping

from lbdns_shared.service_manager import ALIVE, manager_address, watchdog_period

log = logging.getLogger("lbdns")


class Watchdog:
    """Sends a keep-alive message every ``period`` seconds while ``fault()`` is empty, until ``stop`` is called.

    If the service manager receives no keep-alive message for twice that period, it restarts the program. The event loop
    must therefore be running, and must never be blocked for that long.
    """

    def __init__(self, fault: Callable[[], str], period: float, environment: Mapping[str, str] = os.environ) -> None:
        self._fault, self._period = fault, period
        self._address = manager_address(environment)
        # Kept open, so that a healthy program is not restarted just because it has no free descriptor
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.setblocking(False)
        self._withheld = False
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_soon(self._feed)

    def stop(self) -> None:
        self._timer.cancel()
        self._sock.close()

    def _feed(self) -> None:
        fault = self._fault()
        if bool(fault) != self._withheld:
            self._withheld = bool(fault)
            if fault:
                log.error(
                    "unhealthy: %s; if this state lasts, the service manager's watchdog restarts the program", fault
                )
            else:
                log.info("healthy again")
        if not fault and self._address:
            with contextlib.suppress(OSError):
                self._sock.sendto(ALIVE.encode(), self._address)
        self._timer = self._loop.call_later(self._period, self._feed)


def start_watchdog(fault: Callable[[], str], *, took_over: bool = False) -> Watchdog | None:
    """Return a running watchdog, or None if the service manager expects no keep-alive messages."""
    period = watchdog_period(took_over=took_over)
    return None if period is None else Watchdog(fault, period)
