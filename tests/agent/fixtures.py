"""/proc files recorded from several kernels, and hosts whose metrics are read from these files."""

from __future__ import annotations

from pathlib import Path

from lbdns_agent.kernel_files import ProcFiles
from lbdns_agent.sensor import MeasuredHost

FIXTURES = Path(__file__).parent.parent / "fixtures"
PROC = FIXTURES / "proc"
STATUS = FIXTURES / "server_status"
KERNELS = ("2.6.32", "3.10", "4.19", "5.10", "6.1", "6.18")


def proc_file(kernel: str, name: str) -> bytes:
    """Return the content of the /proc file ``name`` that was recorded on ``kernel``."""
    return (PROC / kernel / name).read_bytes()


def host_with_kernel(kernel: str) -> MeasuredHost:
    """Return a host whose only /proc files are those recorded on ``kernel``."""
    return MeasuredHost(ProcFiles(PROC / kernel))
