"""Limits on HTTP connections and requests, for each client and in total.

A connection is either waiting for a request or busy with a request. If a limit is reached, a new connection replaces
the one that has waited longest. Idle connections and incomplete requests therefore cannot lock readers out. Busy
connections are never replaced; if all connections are busy, further requests are refused. Some connections are reserved
for this machine and for health checks.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final, Protocol

from lbdns_collector.web.access_control import AccessControl
from lbdns_collector.web.event_hub import MAX_STREAMS
from lbdns_collector.web.refusal import Refusal
from lbdns_collector.web.render_scheduler import RenderLane, RenderScheduler

#: Seconds of CPU time to read a request and write its response head: 0.4 ms on an idle server, and about twice that if
#: queries evict the processor's caches in between
REQUEST_COST: Final = 0.0008
HANDSHAKE_COST: Final = 0.002  # the same for a TLS handshake
MAX_WAITING: Final = 32  # requests of one client in one lane that may wait for their turn
MAX_BUSY: Final = MAX_STREAMS + 64  # requests in progress; each takes 10 to 50 kB
RESERVED: Final = 32  # of these for this machine; health checks have as many in addition
MAX_OPEN: Final = MAX_BUSY + RESERVED + 60  # connections
SPARED: Final = 1.0  # seconds without a request, after which a connection is closed if a descriptor is needed
SPARE: Final = 8  # connections of one client that may wait for a request, however many are busy


class LimitedConnection(Protocol):
    """The interface that ``ConnectionLimits`` requires of a connection."""

    @property
    def client(self) -> WebClient: ...

    @property
    def address(self) -> str:
        """The IP address of the connection's peer."""

    def abort(self) -> None:
        """Close the connection immediately."""

    def check_deadline(self, now: float) -> None:
        """Close the connection if its deadline (event loop time) has passed."""


@dataclass(eq=False)
class WebClient:
    """The connections and requests of one client: an IPv4 address, an IPv6 /64 network, or this machine."""

    name: str
    is_local: bool
    #: Since when (monotonic seconds) connections have waited; the longest-waiting connection first
    waiting: dict[LimitedConnection, float] = field(default_factory=dict)
    busy: set[LimitedConnection] = field(default_factory=set)
    queued: Counter[RenderLane] = field(default_factory=Counter)  # requests waiting for their turn
    turns: defaultdict[RenderLane, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    def __len__(self) -> int:
        return len(self.waiting) + len(self.busy)

    @property
    def replaceable(self) -> int:
        """The number of this client's connections that other clients' connections may replace."""
        return len(self.waiting) - (RESERVED if self.is_local else 0)


class ConnectionLimits:
    """The open connections of one server, grouped by client, and their limits."""

    def __init__(self, access: AccessControl, scheduler: RenderScheduler) -> None:
        self.access = access
        self._scheduler = scheduler
        self._clients: dict[str, WebClient] = {}
        self._open = self._busy = 0  # connections

    @property
    def busy(self) -> int:
        """The number of requests in progress."""
        return self._busy

    @property
    def waiting(self) -> int:
        """The number of connections waiting for a request."""
        return self._open - self._busy

    def client(self, name: str, is_local: bool) -> WebClient:
        """Return the client called ``name``, or a new client if it has no open connection."""
        return self._clients[name] if name in self._clients else WebClient(name, is_local)

    def connections(self) -> list[LimitedConnection]:
        """Return all open connections."""
        return [connection for each in self._clients.values() for connection in (*each.waiting, *each.busy)]

    def opened(self, connection: LimitedConnection) -> None:
        """Add a connection that is waiting for a request.

        If a limit is reached, the new connection replaces the one that has waited longest.
        """
        client = self._clients.setdefault(connection.client.name, connection.client)
        client.waiting[connection] = time.monotonic()
        self._open += 1
        if len(client) > self._limit(client) and len(client.waiting) > SPARE:
            self._replace(client)
        elif self._open > MAX_OPEN:
            self._replace(self._greediest())

    def make_room(self) -> bool:
        """Close a waiting connection, because a new connection needs a file descriptor.

        Return whether a connection was closed. Connections that have waited for less than SPARED seconds stay open.
        Without this rule, a new connection could close the previous one before its request has been read.
        """
        client = self._greediest()
        since = next(iter(client.waiting.values()), math.inf) if client else math.inf
        return since <= time.monotonic() - SPARED and self._replace(client)

    def _greediest(self) -> WebClient | None:
        """Return the client with the most waiting connections."""
        return max(self._clients.values(), key=lambda each: each.replaceable, default=None)

    def closed(self, connection: LimitedConnection) -> None:
        """Remove a connection that has not been removed yet."""
        client = connection.client
        if connection in client.busy:
            client.busy.discard(connection)
            self._busy -= 1
        elif client.waiting.pop(connection, None) is None:
            return
        self._open -= 1
        if not len(client):
            self._clients.pop(client.name, None)

    def refusal(self, connection: LimitedConnection, lane: RenderLane) -> Refusal | None:
        """Return the reason why a request on a connection must be refused, or None if the request may begin."""
        client = connection.client
        if not (client.is_local or self.access.is_allowed(connection.address)):  # since a reload
            return Refusal.of_network(connection.address)
        if client.queued[lane] >= MAX_WAITING:
            return Refusal("busy", 503, "too many requests are waiting; retry later")
        most = MAX_BUSY + RESERVED if lane == "health" else MAX_BUSY if client.is_local else MAX_BUSY - RESERVED
        if self._busy >= most:
            return Refusal("busy", 503, "too many requests are in progress; retry later")
        if lane != "health" and len(client.busy) >= (limit := self._limit(client)):
            what = f"{limit} requests from {client.name} are already in progress ([web] connections_per_client)"
            return Refusal("busy", 503, what)
        return None

    def began(self, connection: LimitedConnection) -> None:
        """Record that a request has begun on a connection."""
        del connection.client.waiting[connection]
        connection.client.busy.add(connection)
        self._busy += 1

    def ended(self, connection: LimitedConnection) -> None:
        """Record that a connection is waiting for its next request."""
        connection.client.busy.discard(connection)
        connection.client.waiting[connection] = time.monotonic()
        self._busy -= 1

    def close_waiting(self) -> None:
        """Close the connections waiting for a request."""
        for client in tuple(self._clients.values()):
            for connection in tuple(client.waiting):
                connection.abort()

    def close_all(self) -> None:
        """Close all connections, including those with a request in progress."""
        for connection in self.connections():
            connection.abort()

    async def turn(self, client: WebClient, lane: RenderLane) -> None:
        """Wait until a request from a client may be read, or a handshake may begin.

        Clients take turns, regardless of how many requests each of them sends.
        """
        client.queued[lane] += 1
        try:
            cost = HANDSHAKE_COST if lane == "handshake" else REQUEST_COST
            async with client.turns[lane], self._scheduler.turn(lane, cost):
                pass
        finally:
            client.queued[lane] -= 1

    def _limit(self, client: WebClient) -> int:
        return MAX_OPEN if client.is_local else self.access.connections_per_client

    def _replace(self, client: WebClient | None) -> bool:
        """Close one of the client's connections: the one that has waited longest for a request.

        Return whether a connection was closed.
        """
        oldest = next(iter(client.waiting), None) if client else None
        if oldest is None:
            return False
        self.access.refuse("replaced", oldest.address)
        self.closed(oldest)
        oldest.abort()
        return True
