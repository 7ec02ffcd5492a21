"""A non-blocking TCP connection to one address of a NATS server, encrypted with TLS if the session needs it."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lbdns_agent.background_resolver import Address
from lbdns_agent.bus.bus_error import BusError
from lbdns_agent.bus.bus_session import BusSession, SessionEvent
from lbdns_agent.non_blocking_sensors import READABLE, WRITABLE, DescriptorWait

if TYPE_CHECKING:
    import ssl

    from lbdns_agent.bus.tls_stream import TlsStream

_PIECE: Final = 16 * 1024  # bytes per read
_MOST_READS: Final = 32  # per call, so that a server that sends without end can't delay a report
#: Milliseconds after which the kernel gives up a connection whose bytes the server's host does not acknowledge
_UNACKNOWLEDGED: Final = 2000


class BusConnection:
    """A connection that starts when the object is created. No method waits."""

    def __init__(self, address: Address, host: str, session: BusSession, context: Callable[[], ssl.SSLContext]) -> None:
        """``host`` is the name or address that the server's certificate must contain. Raises BusError.

        ``context`` is called if the session needs TLS. It may raise BusError.
        """
        self.session = session
        self._host, self._context = host, context
        self._is_open = self._has_unread = False
        self._handshake: TlsStream | None = None  # while the TLS handshake is in progress
        try:
            self._socket = socket.socket(address[0], socket.SOCK_STREAM)
        except OSError as error:
            raise BusError(error.strerror or str(error)) from None
        self._stream: socket.socket | TlsStream = self._socket
        try:
            self._connect(address)
        except OSError as error:
            self.close()
            raise BusError(error.strerror or str(error)) from None

    def _connect(self, address: Address) -> None:
        sock = self._socket
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED)
        with contextlib.suppress(BlockingIOError):
            sock.connect(address[1])

    def wait(self) -> DescriptorWait:
        """Return the descriptor and the events to wait for before the next call of ``advance``."""
        if not self._is_open:
            events = WRITABLE
        elif self._handshake:
            events = self._handshake.handshake_waits_for
        else:
            events = READABLE | WRITABLE if self.session.outgoing or self._has_unread else READABLE
        return DescriptorWait(self._stream.fileno(), events)

    def advance(self) -> list[SessionEvent]:
        """Do everything that is possible without waiting. Return what has happened in the session, in order.

        Raises BusError if the connection has failed.
        """
        try:
            if not (self._is_open or self._finish_connecting()):
                return []
            if self._handshake and not self._finish_handshake():
                return []
            self._send()
            events = self._receive()
            if self.session.needs_tls and not self._handshake:
                self._start_handshake()
            self._send()
            return events
        except OSError as error:
            raise BusError(error.strerror or str(error)) from None

    def close(self) -> None:
        self._stream.close()

    def _finish_connecting(self) -> bool:
        status = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            raise BusError(os.strerror(status))
        try:
            self._socket.getpeername()
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # not connected yet
                raise
            return False
        self._is_open = True
        return True

    def _start_handshake(self) -> None:
        from lbdns_agent.bus.tls_stream import TlsStream  # takes 5 MB

        context = self._context()
        try:
            self._stream = self._handshake = TlsStream(self._socket, self._host, context)
        except ValueError as error:  # for example, no certificate can contain an address with an interface
            raise BusError(f"{self._host!r} can't be used with TLS: {error}", True) from None
        self._finish_handshake()

    def _finish_handshake(self) -> bool:
        assert self._handshake is not None
        if not self._handshake.finish_handshake():
            return False
        self._handshake = None
        self.session.continue_encrypted()
        return True

    def _send(self) -> None:
        outgoing = self.session.outgoing
        if self._handshake:
            return
        with contextlib.suppress(BlockingIOError):
            while outgoing:
                sent = self._stream.send(bytes(outgoing))
                del outgoing[:sent]

    def _receive(self) -> list[SessionEvent]:
        events: list[SessionEvent] = []
        self._has_unread = False
        for _ in range(_MOST_READS):
            try:
                data = self._stream.recv(_PIECE)
            except BlockingIOError:
                return events
            if not data:
                raise BusError("the server closed the connection")
            events += self.session.receive(data)
            if self.session.needs_tls:
                return events  # the bytes that follow are encrypted
        self._has_unread = True
        return events
