"""Reports the state of a program to a service manager (sd_notify(3)), if there is one."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"
#: s; used by a program that has taken over, because only its predecessor was told the period. A message costs little.
UNTOLD_PERIOD: Final = 1.0


def ready(pid: int) -> str:
    """Return the message "ready", which contains the main process ID, because a takeover changes that ID."""
    return f"{READY}\nMAINPID={pid}"


def reloading() -> str:
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"


def manager_address(environment: Mapping[str, str]) -> str | None:
    """Return the address of the service manager's socket, or None if there is no service manager."""
    path = environment.get("NOTIFY_SOCKET", "")
    if path[:1] not in ("/", "@"):
        return None
    return "\0" + path[1:] if path.startswith("@") else path


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send ``state`` to the service manager, if there is one. Errors are ignored."""
    address = manager_address(environment)
    if address is None:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)  # a manager that hangs must not hold up queries
        sock.sendto(state.encode(), address)


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
