"""Captured and faithful files of several kernels, and the things that sensors look at."""

from __future__ import annotations

from pathlib import Path

from lbdns_agent.host import Host
from lbdns_agent.kernel_file import Proc

FIXTURES = Path(__file__).parent.parent / "fixtures"
PROC = FIXTURES / "proc"
STATUS = FIXTURES / "server_status"
KERNELS = ("2.6.32", "3.10", "4.19", "5.10", "6.1", "6.18")


def proc_file(kernel: str, name: str) -> bytes:
    """The file ``name`` of /proc as ``kernel`` writes it."""
    return (PROC / kernel / name).read_bytes()


def host_of(kernel: str) -> Host:
    """A host with the files of ``kernel`` and nothing else."""
    return Host(Proc(PROC / kernel))
