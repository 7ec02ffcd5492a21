"""The listening DNS sockets: opens them in pairs, groups them by address, and distributes them among the workers.

The main process keeps all sockets open, so that queries waiting for a dead worker are not lost.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from lbdns.sockets.binding import bind, bound_endpoint, enlarge
from lbdns.sockets.inherited_sockets import InheritedSocket, same_address
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ListenError

log = logging.getLogger("lbdns.server")

BACKLOG: Final = 256  # connections that wait to be accepted
#: Bytes; queries wait here while the event loop is busy, and during a restart: at 2,000 queries/s, for 7 s or more
RECEIVE_BUFFER: Final = 16 * 1024 * 1024
WILDCARDS: Final = ("0.0.0.0", "::")
# Linux's number, which the socket module lacks
IP_PKTINFO: Final = 8
_KEY: Final = "[server] listen"
_PORT_ZERO_TRIES: Final = 20  # a port that is free for UDP may be taken for TCP

Pair = tuple[socket.socket, socket.socket]  # UDP and TCP
#: Sockets by number; the main process never uses a number twice
NumberedSockets = Mapping[int, socket.socket]


def open_udp(endpoint: Endpoint, beside: bool = False) -> socket.socket:
    """Return a non-blocking UDP socket bound to ``endpoint``.

    With ``beside``, the socket shares its port with another socket of this server. Raises ListenError.
    """
    sock = bind(endpoint, socket.SOCK_DGRAM, "DNS over UDP", _KEY, beside=beside)
    make_ready(sock)
    return sock


def open_tcp(endpoint: Endpoint, beside: bool = False) -> socket.socket:
    """Return a listening, non-blocking TCP socket bound to ``endpoint``.

    If ``beside`` is true, the socket shares its port with another socket of this server. Raises ListenError.
    """
    return bind(endpoint, socket.SOCK_STREAM, "DNS over TCP", _KEY, backlog=BACKLOG, beside=beside)


_OPENERS: Final = {socket.SOCK_DGRAM: open_udp, socket.SOCK_STREAM: open_tcp}


def make_ready(sock: socket.socket) -> None:
    """Enlarge the receive buffer of a bound UDP socket.

    If the socket is bound to a wildcard address, also make the kernel report each query's destination address, because
    the response must come from that address.
    """
    enlarge(sock, RECEIVE_BUFFER)
    if bound_endpoint(sock).host in WILDCARDS:  # as the kernel writes it: "::0" is a wildcard too
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)


def open_pair(endpoint: Endpoint) -> Pair:
    """Return a UDP and a TCP socket on a port that no other program can share; port 0 means any free port.

    Raises ListenError.
    """
    for attempt in range(_PORT_ZERO_TRIES):
        udp = open_udp(endpoint)
        try:
            return udp, open_tcp(bound_endpoint(udp))
        except ListenError as error:
            udp.close()
            taken = isinstance(error.__context__, OSError) and error.__context__.errno == errno.EADDRINUSE
            if endpoint.port or not taken or attempt == _PORT_ZERO_TRIES - 1:
                raise
    raise AssertionError("the last attempt always returns or raises an error")


def duplicates(sockets: NumberedSockets) -> dict[int, socket.socket]:
    """Return duplicates (dup(2)) of ``sockets``. Raises ListenError if the process has run out of descriptors."""
    made: dict[int, socket.socket] = {}
    try:
        for number, sock in sockets.items():
            made[number] = sock.dup()
    except OSError as error:
        for sock in made.values():
            sock.close()
        raise ListenError(f"DNS: a socket cannot be duplicated: {error.strerror}") from None
    return made


class SocketChange:
    """The sockets for a new configuration. No process answers queries on the new sockets yet.

    The caller must call either ``commit`` or ``rollback``. Call ``commit`` only when no process still answers queries
    on sockets outside this change; ``rollback`` undoes the change.
    """

    def __init__(self, groups: SocketGroups, before: Mapping[Endpoint, NumberedSockets]) -> None:
        self._groups, self._before = groups, before
        self.after: dict[Endpoint, dict[int, socket.socket]] = {}

    def dealt(self, workers: int) -> list[dict[int, socket.socket]]:
        """Distribute all sockets. Each worker gets at least one UDP and one TCP socket per address."""
        hands: list[dict[int, socket.socket]] = [{} for _ in range(workers)]
        for group in self.after.values():
            for kind in _OPENERS:
                sockets = [(number, sock) for number, sock in group.items() if sock.type == kind]
                for turn in range(max(workers, len(sockets))):
                    number, sock = sockets[turn % len(sockets)]
                    hands[turn % workers][number] = sock
        return hands

    def commit(self) -> None:
        """Keep the sockets in this change, and close all others."""
        self._groups.replace(self.after)

    def rollback(self) -> None:
        """Close the sockets that were opened for this change."""
        _close_surplus(self.after, self._before)
        self.after.clear()


class SocketGroups:
    """UDP and TCP sockets, grouped by configured address."""

    def __init__(self) -> None:
        self._open: dict[Endpoint, dict[int, socket.socket]] = {}
        self._numbers = itertools.count(1)

    @property
    def endpoints(self) -> list[Endpoint]:
        """The addresses on which DNS queries are answered, with actual port numbers."""
        return [bound_endpoint(next(iter(group.values()))) for group in self._open.values()]

    def inheritable(self) -> Iterator[InheritedSocket]:
        """Yield all sockets for a new process that takes over; this object still owns the sockets."""
        for asked, group in self._open.items():
            for sock in group.values():
                yield InheritedSocket("dns", asked, sock)

    def prepare(
        self, endpoints: Iterable[Endpoint], workers: int, inherited: Sequence[InheritedSocket] = ()
    ) -> SocketChange:
        """Open any sockets that ``endpoints`` and the number of ``workers`` require, and return the change.

        The change includes all ``inherited`` sockets, even those with addresses that are no longer configured, because
        queries may be waiting in them. If an address is not available, the method closes every socket that it has
        opened, and raises ListenError.
        """
        change = SocketChange(self, self._open)
        wanted = tuple(dict.fromkeys(endpoints))
        try:
            for taken in inherited:
                here = bound_endpoint(taken.sock)
                asked = next((e for e in wanted if e == taken.asked or same_address(e, here)), taken.asked)
                change.after.setdefault(asked, {})[next(self._numbers)] = taken.sock
                if taken.sock.type == socket.SOCK_DGRAM:
                    make_ready(taken.sock)
            for endpoint in wanted:
                if endpoint in change.after:
                    self._complete(change.after[endpoint], workers)
                elif group := self._at(endpoint):
                    change.after[endpoint] = _without_surplus(group, workers)
                else:
                    change.after[endpoint] = {next(self._numbers): sock for sock in open_pair(endpoint)}
                    self._multiply(change.after[endpoint], workers)
        except ListenError as error:
            change.rollback()
            ours = [here for here in self.endpoints if _overlap(here, endpoint)]
            if ours:
                what = (
                    f"{endpoint} overlaps {ours[0]}, on which this server already answers; this change needs a restart"
                )
                raise ListenError(what) from error
            raise
        return change

    def replace(self, after: Mapping[Endpoint, dict[int, socket.socket]]) -> None:
        """Keep the sockets in ``after``, close all others, and log the new addresses."""
        before, self._open = self._open, dict(after)
        known = {number for group in before.values() for number in group}
        for group in self._open.values():
            if known.isdisjoint(group):
                log.info("answering DNS on %s", bound_endpoint(next(iter(group.values()))))
        _close_surplus(before, self._open)

    def close(self) -> None:
        self.replace({})

    def _at(self, endpoint: Endpoint) -> NumberedSockets | None:
        """Return the open sockets at an address (in any notation), or None if there are none."""
        for asked, group in self._open.items():
            if asked == endpoint or same_address(bound_endpoint(next(iter(group.values()))), endpoint):
                return group
        return None

    def _complete(self, group: dict[int, socket.socket], workers: int) -> None:
        """Add missing sockets to an inherited group: a UDP or TCP socket, or sockets for additional workers."""
        here = bound_endpoint(next(iter(group.values())))
        for kind, opens in _OPENERS.items():
            if not any(sock.type == kind for sock in group.values()):
                group[next(self._numbers)] = opens(here)
        # The port of a socket that another user opened cannot be shared by new sockets: some workers must then use the
        # same socket, which costs a little speed
        with contextlib.suppress(ListenError):
            self._multiply(group, workers)

    def _multiply(self, group: dict[int, socket.socket], workers: int) -> None:
        for kind, opens in _OPENERS.items():
            sockets = [sock for sock in group.values() if sock.type == kind]
            if len(sockets) < workers:
                # The first socket is bound without this option, so that a second server started by mistake gets an
                # error instead of half of the queries
                for sock in sockets:
                    with contextlib.suppress(OSError):
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            for _ in range(len(sockets), workers):
                group[next(self._numbers)] = opens(bound_endpoint(sockets[0]), True)


def _close_surplus(groups: Mapping[Endpoint, NumberedSockets], kept: Mapping[Endpoint, NumberedSockets]) -> None:
    known = {number for group in kept.values() for number in group}
    for group in groups.values():
        for number, sock in group.items():
            if number not in known:
                sock.close()


def _without_surplus(group: NumberedSockets, workers: int) -> dict[int, socket.socket]:
    """Return a copy of ``group`` without the UDP sockets that no worker needs.

    Every TCP socket is kept, because closing it would reset the connections in its queue.
    """
    udp = [number for number, sock in group.items() if sock.type == socket.SOCK_DGRAM]
    return {number: sock for number, sock in group.items() if number not in udp[workers:]}


def _overlap(one: Endpoint, other: Endpoint) -> bool:
    """Return whether two addresses conflict because one address is a wildcard that covers the other."""
    family = [":" in endpoint.host for endpoint in (one, other)]
    return one.port == other.port and family[0] == family[1] and not {one.host, other.host}.isdisjoint(WILDCARDS)
