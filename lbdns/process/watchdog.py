"""Sends keep-alive messages to the service manager's watchdog (WatchdogSec= of systemd.service(5))."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import Final

from lbdns.process.service_manager import manager_address

log = logging.getLogger("lbdns")

ALIVE: Final = b"WATCHDOG=1"
#: s; used by a program that has taken over, because only its predecessor was told the period. A message costs little.
UNTOLD_PERIOD: Final = 1.0


def watchdog_period(environment: Mapping[str, str] = os.environ, *, took_over: bool = False) -> float | None:
    """Return the period between messages in seconds: half the service manager's timeout (sd_watchdog_enabled(3)).

    Returns None if no service manager expects messages. ``took_over`` is true if this program has replaced the program
    that the service manager started.
    """
    if manager_address(environment) is None:
        return None
    usec, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if took_over and not usec:
        return UNTOLD_PERIOD
    if not usec.isdecimal() or not int(usec) or (pid not in ("", str(os.getpid())) and not took_over):
        return None
    return int(usec) / 2e6


class Watchdog:
    """Sends a keep-alive message every ``period`` seconds while ``fault()`` is empty, until ``stop`` is called.

    If the service manager receives no keep-alive message for twice that period, it restarts the program. The event loop
    must be running, and must never be blocked for twice that period.
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
                self._sock.sendto(ALIVE, self._address)
        self._timer = self._loop.call_later(self._period, self._feed)


def start_watchdog(fault: Callable[[], str], *, took_over: bool = False) -> Watchdog | None:
    """Return a running watchdog, or None if the service manager expects no keep-alive messages."""
    period = watchdog_period(took_over=took_over)
    return None if period is None else Watchdog(fault, period)
