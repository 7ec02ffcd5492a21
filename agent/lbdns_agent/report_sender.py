"""Sends reports to the collectors through one UDP socket per collector, and to a bus. The sockets only send data."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from lbdns_agent.background_resolver import Address, BackgroundResolver
from lbdns_shared.endpoint import Endpoint

if TYPE_CHECKING:
    from lbdns_agent.bus.bus_publisher import BusPublisher

#: Seconds without an error before a collector counts as reachable again; the agent uses two intervals, if longer
RECOVERY_TIME: Final = 2.0

log = logging.getLogger("lbdns.agent")


class CollectorSocket:
    """A sender of reports to one collector, through one UDP socket.

    Sending never blocks and never raises an exception. The socket is connected, so the kernel reports a closed port
    when the agent sends the next datagram (udp(7)). The agent then sends that datagram again.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        recovery_time: float = RECOVERY_TIME,
        clock: Callable[[], float] = time.monotonic,
        sources: Sequence[str] = (),
    ) -> None:
        """``sources`` are the source addresses of reports.

        In each address family, the first of ``sources`` is used if this host has it; otherwise, the kernel chooses.
        """
        self.endpoint = endpoint
        self.resolver = BackgroundResolver(endpoint)
        self._recovery_time = recovery_time
        self._clock = clock
        self._sources = sources
        self._socket: socket.socket | None = None
        self._address: Address | None = None
        self._failures = 0  # consecutive reports whose first attempt failed
        self._failed_at: float | None = None  # time of the last error, while the collector counts as unreachable

    def send(self, datagram: bytes) -> None:
        """Send ``datagram`` to the last address that worked.

        If sending fails, try the collector's other addresses in turn.
        """
        error = self._try_all(datagram)
        now = self._clock()
        if error:
            if self._failed_at is None:
                log.warning("collector %s can't be reached: %s; the agent keeps trying", self.endpoint, error)
            self._failed_at = now
            self.resolver.refresh()
        elif self._failed_at is not None and now - self._failed_at >= self._recovery_time:
            # Errors arrive one report late, and routers report only some of them: one success proves nothing
            self._failed_at = None
            log.info("collector %s can be reached again", self.endpoint)

    def close(self) -> None:
        """Close the socket. The next ``send`` opens another socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _try_all(self, datagram: bytes) -> str:
        """Try the collector's addresses one after another until sending succeeds.

        Return the reason why the collector can't be reached, or an empty string if it can.
        """
        addresses = self.resolver.addresses
        if addresses is None:
            return ""  # the first lookup is in progress
        if not addresses:
            return self.resolver.error or "the name has no address"
        first = addresses.index(self._address) if self._address in addresses else 0
        errors: list[str] = []
        # The first address is tried once more at the end: the previous report may have caused its error
        for address in (*addresses[first:], *addresses[:first], addresses[first]):
            error = self._try(datagram, address)
            if not error:
                break
            errors.append(error)
        # An error from an address that was tried for the first time surfaces only at the next report
        self._failures = self._failures + 1 if errors else 0
        return errors[0] if self._failures >= len(addresses) or len(errors) > len(addresses) else ""

    def _try(self, datagram: bytes, address: Address) -> str:
        try:
            if self._address != address or self._socket is None:
                self.close()
                self._address = address
                self._socket = socket.socket(address[0], socket.SOCK_DGRAM)
                self._socket.setblocking(False)
                self._bind(self._socket)
                self._socket.connect(address[1])
            self._socket.send(datagram)
        except (BlockingIOError, ConnectionRefusedError) as error:
            return error.strerror or str(error)
        except OSError as error:
            self.close()  # this host may have another address now
            return error.strerror or str(error)
        return ""

    def _bind(self, sock: socket.socket) -> None:
        for source in self._sources:
            family = socket.AF_INET6 if ":" in source else socket.AF_INET
            if family == sock.family:
                # Behind address translation, this host may not have the address: the collector then sees another one
                with contextlib.suppress(OSError):
                    sock.bind((source, 0))
                return


class ReportSender:
    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        recovery_time: float = RECOVERY_TIME,
        sources: Sequence[str] = (),
        bus: BusPublisher | None = None,
    ) -> None:
        """``sources`` are the source addresses of reports. ``bus`` also publishes every report.

        In each address family, the first of ``sources`` is used if this host has it; otherwise, the kernel chooses.
        """
        self.bus = bus
        self._collectors = [CollectorSocket(endpoint, recovery_time, sources=sources) for endpoint in endpoints]

    def wait_for_names(self, longest: float) -> None:
        """Wait up to ``longest`` seconds for the first lookups of the collectors' and the bus's names to finish."""
        end = time.monotonic() + longest
        for collector in self._collectors:
            collector.resolver.wait_for_first(max(0.0, end - time.monotonic()))
        if self.bus:
            self.bus.wait_for_names(max(0.0, end - time.monotonic()))

    def send(self, datagram: bytes) -> None:
        for collector in self._collectors:
            collector.send(datagram)
        if self.bus:
            self.bus.publish(datagram)

    def resolve_again(self) -> None:
        for collector in self._collectors:
            collector.resolver.refresh()
        if self.bus:
            self.bus.refresh()

    def finish(self, longest: float) -> None:
        """Wait up to ``longest`` seconds until the bus has the last report, and then close everything."""
        if self.bus:
            self.bus.finish(longest)
        self.close()

    def close(self) -> None:
        """Close all sockets, and end the lookups of the collectors' names."""
        for collector in self._collectors:
            collector.close()
            collector.resolver.close()
        if self.bus:
            self.bus.close()
