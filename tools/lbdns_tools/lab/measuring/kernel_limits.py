"""Notes which of the kernel's queues and tables were full on a lab's machines, and how much of their limits was used.

A failed request rarely says what its server lacked. The kernel counts the connections and datagrams that it drops, for
each network namespace and thus for each machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Self, TextIO

from lbdns_tools.lab.machines.network_namespaces import inside
from lbdns_tools.lab.machines.placed_machine import PlacedMachine

#: Figure -> the protocol and name of a counter in /proc/net/netstat or /proc/net/snmp
COUNTERS: Final[Mapping[str, tuple[str, str]]] = {
    "listen_overflows": ("TcpExt", "ListenOverflows"),  # connections refused because a queue for accept() was full
    "listen_drops": ("TcpExt", "ListenDrops"),  # connections dropped while they were opened, for any reason
    "syn_queue_drops": ("TcpExt", "TCPReqQFullDrop"),  # SYNs dropped because too many connections were half open
    "backlog_drops": ("TcpExt", "TCPBacklogDrop"),  # segments dropped because a busy socket's backlog was full
    "syn_retransmissions": ("TcpExt", "TCPSynRetrans"),  # SYNs and SYN-ACKs that were sent again
    "udp_receive_drops": ("Udp", "RcvbufErrors"),
    "udp_send_drops": ("Udp", "SndbufErrors"),
}
#: Figure -> the protocol and name of a value in /proc/net/sockstat
SOCKETS: Final[Mapping[str, tuple[str, str]]] = {
    "tcp_sockets": ("TCP", "inuse"),
    "time_wait": ("TCP", "tw"),
    "orphans": ("TCP", "orphan"),  # connections whose program has closed them, and that still send or wait
}
CONNTRACK: Final = "conntrack_percent"  # of the table of tracked connections
DESCRIPTORS: Final = "descriptors_percent"  # of the limit of the process that is closest to its limit
PEAKS: Final = (*SOCKETS, CONNTRACK, DESCRIPTORS)
FIGURES: Final = (*COUNTERS, *PEAKS)
FULL_PERCENT: Final = 95.0

_NET: Final = Path("/proc/thread-self/net")
_NETFILTER: Final = Path("/proc/sys/net/netfilter")
#: Machine -> figure -> the increase of a counter, or the peak of another figure; figures that the kernel lacks are
#: missing
KernelFigures = Mapping[str, Mapping[str, float]]

_MEANINGS: Final[Mapping[str, str]] = {
    "listen_overflows": "the queue for accept() was full {} times",
    "syn_queue_drops": "the queue of half-open connections was full {} times",
    "backlog_drops": "a socket's backlog was full {} times",
    "udp_receive_drops": "a UDP receive buffer was full {} times",
    "udp_send_drops": "a UDP send buffer was full {} times",
}


class KernelWatch:
    """A context manager that watches machines. ``sample`` must be called regularly to find the peaks."""

    def __init__(self, places: Mapping[str, PlacedMachine]) -> None:
        self._places = dict(places)
        self._files: dict[str, _MachineFiles] = {}
        self._before: dict[str, dict[str, float]] = {}
        self._peaks: dict[str, dict[str, float]] = {name: {} for name in places}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for name, place in self._places.items():
                # An open file continues to show the namespace in which it was opened
                self._files[name] = inside(place.namespace, lambda: _MachineFiles(stack))
                self._before[name] = self._files[name].counters()
            self._stack = stack.pop_all()
        self.sample()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def sample(self) -> None:
        """Update the peaks of all machines."""
        for name, place in self._places.items():
            now = self._files[name].gauges()
            now[DESCRIPTORS] = most_descriptors(place.group.pids())
            peaks = self._peaks[name]
            peaks.update({figure: max(value, peaks.get(figure, 0.0)) for figure, value in now.items()})

    def figures(self) -> KernelFigures:
        """Return the counters' increases since the context was entered, and the peaks."""
        self.sample()
        found = {}
        for name, files in self._files.items():
            before = self._before[name]
            increases = {figure: value - before.get(figure, 0.0) for figure, value in files.counters().items()}
            found[name] = {**increases, **self._peaks[name]}
        return found


class _MachineFiles:
    """The kernel's files about the network namespace of the calling thread."""

    def __init__(self, stack: ExitStack) -> None:
        self._counters = [stack.enter_context((_NET / name).open()) for name in ("netstat", "snmp")]
        self._sockets = [stack.enter_context((_NET / name).open()) for name in ("sockstat", "sockstat6")]
        self._conntrack: list[TextIO] = []
        with suppress(OSError):  # the kernel has no connection tracking
            self._conntrack = [
                stack.enter_context((_NETFILTER / name).open()) for name in ("nf_conntrack_count", "nf_conntrack_max")
            ]

    def counters(self) -> dict[str, float]:
        return read_counters(map(_text, self._counters))

    def gauges(self) -> dict[str, float]:
        found = read_sockets(map(_text, self._sockets))
        if self._conntrack:
            count, most = (float(_text(file)) for file in self._conntrack)
            found[CONNTRACK] = 100 * count / most if most else 0.0
        return found


def _text(file: TextIO) -> str:
    file.seek(0)
    return file.read()


def read_counters(texts: Iterable[str]) -> dict[str, float]:
    """Return the figures of COUNTERS that occur in texts like /proc/net/snmp.

    Each protocol has two lines, which begin with its name: one with the counters' names, and one with their values.
    """
    found: dict[tuple[str, str], float] = {}
    for text in texts:
        lines = [line.split() for line in text.splitlines()]
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            protocol = names[0].rstrip(":")
            found.update({(protocol, name): float(value) for name, value in zip(names[1:], values[1:], strict=False)})
    return {figure: found[key] for figure, key in COUNTERS.items() if key in found}


def read_sockets(texts: Iterable[str]) -> dict[str, float]:
    """Return the figures of SOCKETS from texts like /proc/net/sockstat; those for IPv6 are added to those for IPv4."""
    found: dict[tuple[str, str], float] = {}
    for text in texts:
        for line in text.splitlines():
            protocol, *words = line.split()
            for name, value in zip(words[::2], words[1::2], strict=False):
                key = protocol.rstrip(":6"), name
                found[key] = found.get(key, 0.0) + float(value)
    return {figure: found[key] for figure, key in SOCKETS.items() if key in found}


def most_descriptors(pids: Iterable[int], proc: Path = Path("/proc")) -> float:
    """Return how many percent of its limit of open descriptors the process closest to its limit uses.

    Processes that have ended do not count.
    """
    most = 0.0
    for pid in pids:
        with suppress(OSError, StopIteration, ValueError):
            limits = (proc / str(pid) / "limits").read_text().splitlines()
            limit = next(line for line in limits if line.startswith("Max open files")).split()[3]
            if limit != "unlimited":
                most = max(most, 100 * len(os.listdir(proc / str(pid) / "fd")) / float(limit))
    return most


def shortages(figures: KernelFigures) -> list[str]:
    """Return a clause for each queue, buffer and table that was full, such as "bilbo: ... was full 3 times"."""
    found = []
    for machine, values in figures.items():
        clauses = [words.format(f"{values[name]:,.0f}") for name, words in _MEANINGS.items() if values.get(name)]
        other = values.get("listen_drops", 0.0) - values.get("listen_overflows", 0.0)
        if other > 0:
            clauses.append(f"{other:,.0f} connections were dropped for other reasons while they were opened")
        if values.get(CONNTRACK, 0.0) >= FULL_PERCENT:
            clauses.append(f"the table of tracked connections was {values[CONNTRACK]:.0f} % full")
        if values.get(DESCRIPTORS, 0.0) >= FULL_PERCENT:
            clauses.append(f"a process used {values[DESCRIPTORS]:.0f} % of its descriptors")
        found += [f"{machine}: {clause}" for clause in clauses]
    return found
