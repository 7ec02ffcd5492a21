"""Delays and drops the IPv4 packets that a lab's machines send to other machines.

Unlike netem, which not every kernel has, this can treat each destination differently. A route leads the packets for a
destination to a TUN device. A thread of this process reads them, keeps them for the delay, and sends them through the
machine's interface. Packets in the other direction are not affected.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import random
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import LabMachine
from lbdns_tools.lab.machines.network_namespaces import LINK, inside, namespace_of, set_sysctls

DEVICE: Final = "emulated"  # the TUN device of a machine
_TUN: Final = Path("/dev/net/tun")
_TUNSETIFF: Final = 0x400454CA  # linux/if_tun.h
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_REQUEST: Final = struct.Struct("16sH22x")  # struct ifreq, with the flags
_MOST: Final = 65_536  # bytes of a packet
_DESTINATION: Final = slice(16, 20)  # RFC 791 section 3.1
_MANY: Final = 64  # packets that are read from one device before those that are due are sent
#: Responses arrive through another interface than that to which the route of the request leads (RFC 3704)
_SYSCTLS: Final[Mapping[str, str]] = {"ipv4/conf/all/rp_filter": "0", f"ipv4/conf/{LINK}/rp_filter": "0"}
_PRIORITY: Final = 1  # the lowest real-time priority: on a busy machine, the thread would add delays of its own


@dataclass(frozen=True, slots=True)
class LinkCondition:
    """``delay_s`` delays each packet by this many seconds; ``loss`` is the share of the packets that are dropped."""

    delay_s: float = 0.0
    loss: float = 0.0


@dataclass(slots=True)
class _Sender:
    """The TUN device of one machine, and the socket that sends the packets. ``conditions`` has a packed address for
    each destination that a route leads to the device."""

    address: str
    namespace: str
    device: int
    socket: socket.socket
    conditions: dict[bytes, LinkCondition] = field(default_factory=dict)

    def send(self, packet: bytes) -> None:
        with contextlib.suppress(OSError):  # a full queue drops packets, as that of a real interface does
            self.socket.sendto(packet, (socket.inet_ntoa(packet[_DESTINATION]), 0))


class EmulatedLinks:
    """A context manager that applies link conditions to machines of the lab ``id``.

    On exit, all packets take their usual ways again. ``seed`` determines which packets are lost.
    """

    def __init__(self, id: str, seed: int = 1) -> None:
        self._id = id
        self._chance = random.Random(seed)
        self._senders: dict[str, _Sender] = {}
        self._waiting: list[tuple[float, int, _Sender, bytes]] = []  # a heap, by the time at which they are due
        self._count = 0
        # epoll and poll wait for whole milliseconds, which is longer than a delay in a local network
        self._selector = selectors.SelectSelector()
        self._wake = os.eventfd(0)  # interrupts the thread's wait
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="emulated-links", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._selector.close()
        os.close(self._wake)
        for sender in self._senders.values():
            os.close(sender.device)  # removes the device and its routes
            sender.socket.close()

    def set(self, sender: LabMachine, receivers: Iterable[LabMachine], condition: LinkCondition) -> None:
        """Apply ``condition`` to the packets that one machine sends to others, from now on. Raises LbdnsError."""
        try:
            known = self._senders.get(sender.name) or self._add(sender)
            addresses = [address for receiver in receivers for address in receiver.addresses4]
            new = [address for address in addresses if socket.inet_aton(address) not in known.conditions]
            known.conditions |= {socket.inet_aton(address): condition for address in addresses}
            inside(known.namespace, lambda: _route(known.address, new))
        except OSError as error:
            raise LbdnsError(f"cannot emulate the link of {sender.name}: {error.strerror or error}") from None

    def _add(self, machine: LabMachine) -> _Sender:
        namespace = namespace_of(self._id, machine.name)
        set_sysctls(namespace, _SYSCTLS)
        device, sock = inside(namespace, _open)
        added = self._senders[machine.name] = _Sender(machine.address, namespace, device, sock)
        self._selector.register(device, selectors.EVENT_READ, added)
        os.eventfd_write(self._wake, 1)  # select(2) waits only for the devices that it was given
        return added

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # without the privilege, delays are less exact
            os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(_PRIORITY))
        while not self._ended:
            wait_s = max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None
            for key, _ in self._selector.select(wait_s):
                if key.data is None:
                    os.eventfd_read(self._wake)
                else:
                    self._receive(key.data)
            now = time.monotonic()
            while self._waiting and self._waiting[0][0] <= now:
                _, _, sender, packet = heapq.heappop(self._waiting)
                sender.send(packet)

    def _receive(self, sender: _Sender) -> None:
        for _ in range(_MANY):
            try:
                packet = os.read(sender.device, _MOST)
            except BlockingIOError:
                return
            condition = sender.conditions.get(packet[_DESTINATION])
            if condition is None or self._chance.random() < condition.loss:  # without a condition: IPv6, multicast
                continue
            self._count += 1  # keeps the order of packets that are due at the same time
            heapq.heappush(self._waiting, (time.monotonic() + condition.delay_s, self._count, sender, packet))


def _open() -> tuple[int, socket.socket]:
    """Create the TUN device and the socket of a machine. Raises OSError."""
    from pyroute2 import IPRoute

    device = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, _TUNSETIFF, _REQUEST.pack(DEVICE.encode(), _IFF_TUN | _IFF_NO_PI))
        with IPRoute() as route:
            route.link("set", index=_index(route, DEVICE), state="up")
        sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)  # packets contain their headers
    except BaseException:
        os.close(device)
        raise
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, LINK.encode())  # past the routes to the TUN device
    sock.setblocking(False)
    return device, sock


def _route(source: str, addresses: Iterable[str]) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as route:
        index = _index(route, DEVICE)
        for address in addresses:
            route.route("add", dst=f"{address}/32", oif=index, prefsrc=source, scope="link")


def _index(route: Any, name: str) -> int:
    (index,) = route.link_lookup(ifname=name)
    return int(index)
