"""Reports the state of the server to a service manager (sd_notify(3)), if there is one."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


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
