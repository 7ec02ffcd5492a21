"""The only sockets that send reports: one for each collector. Nothing is ever received."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterable
from typing import Final

from lbdns.endpoint import Endpoint
from lbdns_agent.resolve import Address, Resolver, look_up

CALM: Final = 2.0  # seconds, and two intervals, without an error until a collector counts as reachable again

log = logging.getLogger("lbdns.agent")


class Collector:
    """One collector, by name or address. Sending never waits and never raises.

    The socket is connected, so that a port nobody listens on is reported back (udp(7)). The error of one
    datagram comes with the next, which is then tried again: the first to a collector that has come up arrives.
    """

    def __init__(self, endpoint: Endpoint, calm: float = CALM, clock: Callable[[], float] = time.monotonic) -> None:
        self.endpoint = endpoint
        self.resolver = None if endpoint.is_address else Resolver(endpoint)
        self._literal: tuple[Address, ...] | None = None
        self._calm = calm
        self._clock = clock
        self._socket: socket.socket | None = None
        self._address: Address | None = None
        self._failures = 0  # reports in a row whose first attempt failed
        self._broken_at: float | None = None  # of the last error, while it counts as unreachable

    def send(self, datagram: bytes) -> None:
        """Send to the address that worked last, else to the others in turn."""
        error = self._try_all(datagram)
        now = self._clock()
        if error:
            if self._broken_at is None:
                log.warning("collector %s can't be reached: %s; trying on", self.endpoint, error)
            self._broken_at = now
            if self.resolver is not None:
                self.resolver.again()
        elif self._broken_at is not None and now - self._broken_at >= self._calm:
            # Errors come one report late, and a router tells only some of them: the first success proves nothing
            self._broken_at = None
            log.info("collector %s can be reached again", self.endpoint)

    def resolve_again(self) -> None:
        if self.resolver is not None:
            self.resolver.again()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _try_all(self, datagram: bytes) -> str:
        """Why the collector can't be reached; empty when it can, as far as anybody knows."""
        addresses = self._addresses()
        if addresses is None:
            return ""  # the first look-up is under way
        if not addresses:
            return (self.resolver.error if self.resolver else "") or "the name has no address"
        first = addresses.index(self._address) if self._address in addresses else 0
        errors: list[str] = []
        # Once more to the first: what it raised may have been the error of the last report
        for address in (*addresses[first:], *addresses[:first], addresses[first]):
            error = self._try(datagram, address)
            if not error:
                break
            errors.append(error)
        # An address that was tried for the first time tells only with the next report
        self._failures = self._failures + 1 if errors else 0
        return errors[0] if self._failures >= len(addresses) or len(errors) > len(addresses) else ""

    def _try(self, datagram: bytes, address: Address) -> str:
        try:
            if self._address != address or self._socket is None:
                self.close()
                self._address = address
                self._socket = socket.socket(address[0], socket.SOCK_DGRAM)
                self._socket.setblocking(False)
                self._socket.connect(address[1])
            self._socket.send(datagram)
        except (BlockingIOError, ConnectionRefusedError) as error:
            return error.strerror or str(error)
        except OSError as error:
            self.close()  # perhaps this host has another address now
            return error.strerror or str(error)
        return ""

    def _addresses(self) -> tuple[Address, ...] | None:
        if self.resolver is not None:
            return self.resolver.addresses
        if self._literal is None:
            with contextlib.suppress(OSError):
                self._literal = tuple(look_up(self.endpoint))
        return self._literal or ()


class Collectors:
    """All collectors; each gets every report."""

    def __init__(self, endpoints: Iterable[Endpoint], calm: float = CALM) -> None:
        self._all = [Collector(endpoint, calm) for endpoint in endpoints]

    def wait_for_names(self, longest: float) -> None:
        """Give the first look-ups of names at most so many seconds."""
        end = time.monotonic() + longest
        for collector in self._all:
            if collector.resolver is not None:
                collector.resolver.wait_for_first(max(0.0, end - time.monotonic()))

    def send(self, datagram: bytes) -> None:
        for collector in self._all:
            collector.send(datagram)

    def resolve_again(self) -> None:
        for collector in self._all:
            collector.resolve_again()

    def close(self) -> None:
        for collector in self._all:
            collector.close()
