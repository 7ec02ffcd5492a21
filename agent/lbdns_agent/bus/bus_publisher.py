"""Publishes a host's reports to a bus: keeps one connection to one of its servers, and logs changes of its state."""

from __future__ import annotations

import logging
import math
import random
import select
import time
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from lbdns_agent.background_resolver import BackgroundResolver
from lbdns_agent.bus.bus_connection import BusConnection
from lbdns_agent.bus.bus_error import BusError
from lbdns_agent.bus.bus_options import BusOptions, read_secrets
from lbdns_agent.bus.bus_session import BusSession, SessionEvent
from lbdns_agent.bus.reconnect_pause import ReconnectPause
from lbdns_agent.non_blocking_sensors import DescriptorWait
from lbdns_shared.errors import ConfigError

if TYPE_CHECKING:
    import ssl

LONGEST_START: Final = 3.0  # seconds from the start of a connection until the server has accepted the credentials
#: Seconds that a server may take to read a report or to answer a PING. With the pause after a loss, a report is at most
#: 2 s late if its server dies
LONGEST_REPLY: Final = 1.0
#: The minimum seconds between two PINGs, which show that the server still reads and accepts reports. With the usual
#: interval of 1 s, a PING follows each report
PING_INTERVAL: Final = 0.8
LONGEST_KEPT: Final = 10.0  # seconds that the newest report waits for a connection; older ones are of no use
NAME_PAUSE: Final = 0.1  # seconds until the next look whether the first lookup of a name has finished

log = logging.getLogger("lbdns.agent")


class BusPublisher:
    """Implements Service, so all its work happens in the agent's own loop. No method but ``finish`` waits."""

    def __init__(self, options: BusOptions, subject: str, client: str) -> None:
        """Publish under ``subject``. ``client`` is the name of this client in the servers' lists of connections.

        Raises ConfigError if the file of the password, the nkey or the authorities is unusable.
        """
        self.subject = subject
        self._options, self._client = options, client
        self._servers = [(server, BackgroundResolver(server.endpoint)) for server in options.servers]
        random.shuffle(self._servers)  # so that the agents of a farm spread over the servers
        self._turn = 0  # counts attempts: selects the server and its address
        self._pause = ReconnectPause(len(self._servers))
        self._connection: BusConnection | None = None
        self._retry_at = 0.0  # monotonic seconds, while there is no connection
        self._give_up_at = math.inf  # when the server is too slow
        self._ping_at = 0.0
        self._newest: tuple[bytes, float] | None = None  # the newest report, if it has not been sent, and its time
        self._unconfirmed: tuple[bytes, float] | None = None  # the newest report, if it has been sent without a reply
        self._problems: dict[int, str] = {}  # the last logged problem by the server's place
        self._is_refused = False  # whether the server refuses this agent's reports
        self._logged_connection = ""
        self._context: ssl.SSLContext | None = None
        for warning in read_secrets(options)[1]:
            log.warning("%s", warning)
        if options.tls_ca:
            self._tls_context()

    def wait_for_names(self, longest: float) -> None:
        """Wait up to ``longest`` seconds for the first lookups of the servers' names to finish."""
        end = time.monotonic() + longest
        for _, resolver in self._servers:
            resolver.wait_for_first(max(0.0, end - time.monotonic()))

    def publish(self, datagram: bytes) -> None:
        """Publish a report. Without a connection, keep it until there is one, or until the next report."""
        self._newest = (datagram, time.monotonic())
        self.serve(())

    def refresh(self) -> None:
        """Look up the servers' names again, and read the files again when the next connection starts."""
        self._context = None
        for _, resolver in self._servers:
            resolver.refresh()

    def waits(self) -> Iterable[DescriptorWait]:
        """Return the descriptors to wait for."""
        return (self._connection.wait(),) if self._connection else ()

    def deadline(self) -> float:
        """Return the monotonic time at which ``serve`` must be called even if no descriptor is ready."""
        return self._give_up_at if self._connection else self._retry_at

    def serve(self, ready: Collection[int]) -> None:
        """Do everything that is possible without waiting."""
        now = time.monotonic()
        try:
            if self._connection is None and now >= self._retry_at:
                self._start(now)
            if (connection := self._connection) and self._is_due(connection, ready, now):
                self._advance(connection, now)
        except BusError as error:
            self._fail(error, now)

    def finish(self, longest: float) -> None:
        """Wait up to ``longest`` seconds until the server has the last report, and close the connection."""
        end = time.monotonic() + longest
        while (connection := self._connection) and connection.session.is_ready and time.monotonic() < end:
            if not (self._newest or connection.session.has_unconfirmed):
                break
            connection.session.ping()
            poller = select.poll()
            poller.register(*connection.wait())
            ready = poller.poll(max(0.0, min(end, self._give_up_at) - time.monotonic()) * 1000.0)
            self.serve([fd for fd, _ in ready])
        self.close()

    def close(self) -> None:
        """Close the connection, and end the lookups of the servers' names."""
        self._disconnect()
        self._retry_at = math.inf
        for _, resolver in self._servers:
            resolver.close()

    def _is_due(self, connection: BusConnection, ready: Collection[int], now: float) -> bool:
        return self._newest is not None or now >= self._give_up_at or connection.wait().fd in ready

    def _start(self, now: float) -> None:
        """Start a connection to the server whose turn it is. Raises BusError."""
        round_number, place = divmod(self._turn, len(self._servers))
        server, resolver = self._servers[place]
        addresses = resolver.addresses
        if addresses is None:
            self._retry_at = now + NAME_PAUSE
            if len(self._servers) > 1:
                self._turn += 1
            return
        if not addresses:
            raise BusError(resolver.error or "the name has no address")
        try:
            secrets = read_secrets(self._options)[0]
        except ConfigError as error:
            raise BusError(str(error), True) from None
        session = BusSession(server, secrets, self._client)
        address = addresses[round_number % len(addresses)]
        self._connection = BusConnection(address, server.endpoint.host, session, self._tls_context_of_server)
        self._give_up_at = now + LONGEST_START

    def _advance(self, connection: BusConnection, now: float) -> None:
        """Receive, publish the newest report, and send. Raises BusError."""
        session = connection.session
        self._note(connection.advance())
        if not session.is_ready:
            if now >= self._give_up_at:
                raise BusError(f"the server did not accept the connection within {LONGEST_START:g} s")
            return
        if self._newest and not session.outgoing:
            datagram, at = self._newest
            self._newest = None
            if now - at <= LONGEST_KEPT:
                session.publish(self.subject, datagram)
                self._unconfirmed = datagram, at
                if now >= self._ping_at:
                    session.ping()
                    self._ping_at = now + PING_INTERVAL
            self._note(connection.advance())
        if not (session.outgoing or session.awaits_pong):
            self._give_up_at = math.inf
        elif self._give_up_at == math.inf:
            self._give_up_at = now + LONGEST_REPLY
        elif now >= self._give_up_at:
            raise BusError(f"the server has not replied for {LONGEST_REPLY:g} s")

    def _note(self, events: list[SessionEvent]) -> None:
        for event in events:
            if self._connection and not self._connection.session.has_unconfirmed:
                self._unconfirmed = None
            if event == "ready":
                self._pause.succeeded()
                self._give_up_at, self._ping_at, self._is_refused = math.inf, 0.0, False
            elif event == "accepted":
                self._accepted()
            elif not self._is_refused:
                self._is_refused = True
                self._warn(f"the server refuses reports with subject {self.subject}; check this user's permissions")

    def _accepted(self) -> None:
        place = self._turn % len(self._servers)
        where = str(self._servers[place][0])
        if self._problems.pop(place, None) or self._logged_connection != where:
            log.info("bus %s accepts reports, with subject %s", where, self.subject)
        self._logged_connection, self._is_refused = where, False

    def _fail(self, error: BusError, now: float) -> None:
        """Close the connection, and plan the next attempt, with the next server."""
        was_ready = self._connection is not None and self._connection.session.is_ready
        self._disconnect()
        self._newest = self._newest or self._unconfirmed  # the server may not have passed it on
        self._unconfirmed = None
        self._warn(str(error))
        self._servers[self._turn % len(self._servers)][1].refresh()
        self._turn += 1
        self._retry_at = now + (self._pause.after_loss() if was_ready else self._pause.after_failure(error.is_refusal))

    def _warn(self, problem: str) -> None:
        place = self._turn % len(self._servers)
        if self._problems.get(place) != problem:
            self._problems[place] = problem
            log.warning("bus %s: %s; the agent keeps trying", self._servers[place][0], problem)

    def _disconnect(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection, self._give_up_at = None, math.inf

    def _tls_context(self) -> ssl.SSLContext:
        """Return the context that checks the servers' certificates. Raises ConfigError."""
        from lbdns_agent.bus.tls_stream import tls_context

        if self._context is None:
            self._context = tls_context(self._options.tls_ca)
        return self._context

    def _tls_context_of_server(self) -> ssl.SSLContext:
        try:
            return self._tls_context()
        except ConfigError as error:
            raise BusError(str(error), True) from None
