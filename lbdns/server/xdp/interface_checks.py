"""Checks, without loading a program, whether the kernel may answer on the interfaces in ``[server] xdp``."""

from __future__ import annotations

import socket

from lbdns.config import Config
from lbdns.server.xdp.kernel_errors import KernelError
from lbdns.server.xdp.loaded_program import program_object
from lbdns.server.xdp.program_link import check_interface


def unusable_interfaces(config: Config) -> dict[str, str]:
    """Return why the kernel cannot answer on interfaces of this machine, by name."""
    found: dict[str, str] = {}
    for name in config.server.xdp:
        try:
            check_workers(config.server.workers)
            check_interface(interface_number(name))
            program_object()
        except KernelError as error:
            found[name] = str(error)
    return found


def check_workers(workers: int) -> None:
    """Raise KernelError if several processes answer, since each of them has plans of its own."""
    if workers > 1:
        raise KernelError(f"answers in the kernel require workers = 1, not {workers}")


def interface_number(name: str) -> int:
    """Return the number of an interface. Raises KernelError."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        raise KernelError("there is no such network interface; 'ip link' lists them") from None
