"""Fetching the status page: one HTTP/1.0 request, bounded in time and size.

A connection of its own each time, because one that is kept open occupies a worker of the server between two
samples. HTTP/1.0, because nothing then comes in chunks.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import re
import socket
from typing import TYPE_CHECKING, Final

from lbdns import __version__
from lbdns_agent.absent import AbsentError
from lbdns_agent.asides import READABLE, WRITABLE, Steps, Wait
from lbdns_agent.resolve import Address, Resolver, look_up
from lbdns_agent.webserver.url import StatusUrl

if TYPE_CHECKING:
    import ssl

PATIENCE: Final = 5.0  # seconds for the whole exchange
LARGEST: Final = 256 * 1024  # bytes: a scoreboard has one letter a worker, 20,000 at most


class StatusPage:
    """The page of one URL."""

    def __init__(self, url: StatusUrl) -> None:
        self.url = url
        self._request = (
            f"GET {url.target} HTTP/1.0\r\nHost: {url.host_header}\r\n"
            f"User-Agent: lbdns-agent/{__version__}\r\nConnection: close\r\n\r\n"
        ).encode()
        self._resolver = None if url.endpoint.is_address else Resolver(url.endpoint)
        self._literal: tuple[Address, ...] = ()
        self._security: ssl.SSLContext | None = None

    @property
    def addresses(self) -> tuple[bytes, ...]:
        """The server's addresses in network order; none as long as its name has not been looked up."""
        return tuple(_packed(where[0]) for _, where in self._places())

    def fetch(self) -> Steps[bytes]:
        """The page's text. Raises AbsentError."""
        try:
            answer = yield from self._exchange()
        except TimeoutError:
            raise AbsentError(f"{self.url}: no whole answer within {PATIENCE:g} s") from None
        except OSError as error:
            if self._resolver is not None:
                self._resolver.again()
            raise AbsentError(f"{self.url}: {error.strerror or error}") from None
        return page_of(answer, str(self.url))

    def _places(self) -> tuple[Address, ...]:
        if self._resolver is not None:
            return self._resolver.addresses or ()
        if not self._literal:
            with contextlib.suppress(OSError):  # an interface after % that isn't there, perhaps not yet
                self._literal = tuple(look_up(self.url.endpoint))
        return self._literal

    def _exchange(self) -> Steps[bytes]:
        with (yield from self._connect()) as connection:
            # A request fits the buffer of a connection that was just made
            connection.send(self._request)
            parts: list[bytes] = []
            length = 0
            expected = LARGEST
            while length < expected:
                part = yield from _receive(connection)
                if not part:
                    break
                parts.append(part)
                length += len(part)
                if len(parts) == 1:
                    expected = min(expected, _whole_length(part))
            return b"".join(parts)

    def _connect(self) -> Steps[socket.socket]:
        """A connection to the first of the addresses that takes one."""
        error: OSError = OSError("the address can't be used, or the name is not looked up yet")
        if self._resolver is not None and self._resolver.error:
            error = OSError(self._resolver.error)
        for family, where in self._places():
            connection = socket.socket(family, socket.SOCK_STREAM)
            try:
                connection.setblocking(False)
                if (code := connection.connect_ex(where)) == errno.EINPROGRESS:
                    yield Wait(connection.fileno(), WRITABLE)
                    code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    raise OSError(code, os.strerror(code))
                if self.url.scheme == "https":
                    return (yield from self._secured(connection))
                return connection
            except TimeoutError:
                connection.close()
                raise
            except OSError as failed:
                connection.close()
                error = failed
        raise error

    def _secured(self, connection: socket.socket) -> Steps[socket.socket]:
        import ssl  # 5 MB that an agent asking http never needs

        if self._security is None:
            self._security = ssl.create_default_context()
        if ipaddress.ip_address(connection.getpeername()[0].partition("%")[0]).is_loopback:
            # Nobody stands between, and no authority signs for 127.0.0.1
            self._security.check_hostname = False
            self._security.verify_mode = ssl.CERT_NONE
        secured = self._security.wrap_socket(
            connection, server_hostname=self.url.endpoint.host, do_handshake_on_connect=False
        )
        while True:
            try:
                secured.do_handshake()
            except ssl.SSLWantReadError:
                yield Wait(secured.fileno(), READABLE)
            except ssl.SSLWantWriteError:
                yield Wait(secured.fileno(), WRITABLE)
            else:
                return secured


def _receive(connection: socket.socket) -> Steps[bytes]:
    """What comes next on a connection; empty at its end."""
    while True:
        try:
            return connection.recv(65_536)
        except BlockingIOError:
            yield Wait(connection.fileno(), READABLE)
        except OSError as error:
            # ssl.SSLWantReadError by its name: the module is not loaded for http
            if type(error).__name__ != "SSLWantReadError":
                raise
            yield Wait(connection.fileno(), READABLE)


def _packed(address: str) -> bytes:
    return ipaddress.ip_address(address.partition("%")[0]).packed


def _whole_length(beginning: bytes) -> int:
    """How many bytes the answer will have, if its head tells; so the end of the connection need not be awaited."""
    head, blank, _ = beginning.partition(b"\r\n\r\n")
    length = _content_length(head) if blank else None
    return LARGEST if length is None else len(head) + len(blank) + length


def _content_length(head: bytes) -> int | None:
    """The length of the body if the head tells; one that is nonsense is as good as endless."""
    text = _field(head, b"content-length")
    if text is None:
        return None
    return int(text) if text.isdigit() and len(text) < 16 else LARGEST


def _field(head: bytes, name: bytes) -> bytes | None:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


def page_of(answer: bytes, where: str) -> bytes:
    """The body of an HTTP answer. Raises AbsentError when it is refused, no HTTP, too long or cut short. Pure."""
    head, blank, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split(None, 2)
    if not blank or len(words) < 2 or not words[0].startswith(b"HTTP/") or not re.fullmatch(rb"[0-9]{3}", words[1]):
        raise AbsentError(f"{where}: the answer is no HTTP, or was cut short")
    status = int(words[1])
    if status != 200:
        hint = {
            401: "; the page must not ask for a password ('Require local')",
            403: "; let this host read the page ('Require local')",
            404: "; is mod_status loaded ('a2enmod status'), and the path right?",
        }.get(status, "")
        if 300 <= status < 400:
            hint = f"; use {(_field(head, b'location') or b'its address').decode('ascii', 'replace')} instead"
        raise AbsentError(f"{where}: HTTP status {status}{hint}")
    if len(answer) >= LARGEST:
        raise AbsentError(f"{where}: the page is over {LARGEST // 1024} KiB; is it a status page?")
    length = _content_length(head)
    if length is not None and len(body) < length:
        raise AbsentError(f"{where}: the page was cut short")
    return body
