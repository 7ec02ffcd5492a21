"""Connects two network namespaces, for a server and a load generator, by a veth pair whose kernel work can be measured.

The kernel handles the packets that arrive at an end in a thread of that end (threaded NAPI). Each thread runs on the
core of its end's programs, so its CPU time includes what an XDP program or the network stack costs on arrival.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_tools.bench.measured_processes import BenchmarkError, need

SERVER: Final = "198.18.0.53"  # RFC 2544: a network for benchmarks
CLIENT: Final = "198.18.0.2"
LIMIT: Final = 30.0  # seconds a command may take
_THREADED: Final = 'echo 1 > "/sys/class/net/$0/threaded"'
#: The client's end writes checksums like a network card, and passes single packets to the server's thread
_LIKE_A_CARD: Final = ("tx", "off", "tso", "off", "gso", "off", "gro", "on")
_WITH_THREAD: Final = ("gro", "on")


@dataclass(frozen=True, slots=True)
class VethEnd:
    """One end of the pair: its network namespace, its device, and the kernel's thread for packets that arrive."""

    namespace: str
    device: str
    thread: int = 0

    def within(self, *command: str) -> list[str]:
        """Return a command that runs ``command`` in the namespace."""
        return [need("ip", "iproute2"), "netns", "exec", self.namespace, *command]

    def run(self, *command: str) -> str:
        """Run a command in the namespace and return its output. Raises BenchmarkError."""
        return _run(self.within(*command))

    def detach_programs(self) -> None:
        """Detach XDP programs that a server has left on the device. Raises BenchmarkError."""
        _ip("-n", self.namespace, "link", "set", self.device, "xdp", "off")

    def kernel_seconds(self) -> float:
        """Return the CPU time of the kernel's thread so far."""
        return schedstat_seconds(Path(f"/proc/{self.thread}/schedstat").read_text())


def schedstat_seconds(text: str) -> float:
    """Return the CPU time in a schedstat file. Its first number is in ns."""
    return int(text.split()[0]) / 1e9


@contextlib.contextmanager
def veth_pair(server_core: int, load_core: int) -> Iterator[tuple[VethEnd, VethEnd]]:
    """Yield the server's end and the load generator's end. At the end of the with statement, remove both.

    Raises BenchmarkError, for example if this process does not run as root.
    """
    if os.geteuid():
        raise BenchmarkError("network namespaces need root privileges")
    # The names of devices begin the names of the kernel's threads, so they are unique on this machine
    server, client = (VethEnd(f"lbdns-bench-{os.getpid()}-{side}", f"{side}{os.getpid()}") for side in ("s", "c"))
    with contextlib.ExitStack() as stack:
        for end in (server, client):
            _ip("netns", "add", end.namespace)
            stack.callback(_ip, "netns", "delete", end.namespace)
        _ip(
            "link", "add", server.device, "netns", server.namespace, "type", "veth",
            "peer", "name", client.device, "netns", client.namespace,
        )  # fmt: skip
        for end, address, features in ((server, SERVER, _WITH_THREAD), (client, CLIENT, _LIKE_A_CARD)):
            end.run(need("ethtool", "ethtool"), "-K", end.device, *features)
            for words in (("address", "add", f"{address}/24", "dev", end.device), ("link", "set", end.device, "up")):
                _ip("-n", end.namespace, *words)
            _ip("-n", end.namespace, "link", "set", "lo", "up")
            end.run("sh", "-c", _THREADED, end.device)
        yield _with_thread(server, server_core), _with_thread(client, load_core)


def _with_thread(end: VethEnd, core: int) -> VethEnd:
    """Pin the kernel's thread of an end to a core, and return the end with the thread's ID."""
    found = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/comm")
        if _content(path).startswith(f"napi/{end.device}-")
    ]
    if len(found) != 1:
        raise BenchmarkError(f"the kernel must have one NAPI thread for {end.device}, but has {len(found)}")
    os.sched_setaffinity(found[0], {core})
    return VethEnd(end.namespace, end.device, found[0])


def _content(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # the process has just ended


def _ip(*words: str) -> None:
    _run([need("ip", "iproute2"), *words])


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        raise BenchmarkError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
