"""Fetches the web server's status page within limits on time and size, and parses its URL.

Each request opens a new connection, because an idle connection occupies a web server worker between samples. Requests
use HTTP/1.0, so that most servers send no chunked responses (HAProxy's statistics are chunked all the same).
"""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lbdns_agent.background_resolver import BackgroundResolver
from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.non_blocking_sensors import READABLE, WRITABLE, DescriptorWait, ReadingSteps
from lbdns_shared import __version__
from lbdns_shared.endpoint import Endpoint, parse_endpoint

if TYPE_CHECKING:
    import ssl

DEFAULT_URL: Final = "http://127.0.0.1/server-status?auto"
_PORTS: Final = {"http": 80, "https": 443}
TIMEOUT: Final = 5.0  # seconds for the whole exchange
LARGEST: Final = 256 * 1024  # bytes: the scoreboard has one letter for each worker, 20,000 at most
#: What to do about an HTTP status of Apache's status page
APACHE_ADVICE: Final[Mapping[int, str]] = {
    401: "the page must not require a password ('Require local')",
    403: "allow this host to read the page ('Require local')",
    404: "check that mod_status is loaded ('a2enmod status') and that the path is correct",
}


@dataclass(frozen=True)
class StatusUrl:
    """The URL of a status page; ``target`` is the URL's path and query."""

    scheme: str
    endpoint: Endpoint
    target: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host_header}{self.target}"

    @property
    def host_header(self) -> str:
        """The value of the Host header, which servers use to select virtual hosts; the default port is omitted."""
        text = str(self.endpoint)
        return text.removesuffix(f":{_PORTS[self.scheme]}") if self.endpoint.port == _PORTS[self.scheme] else text


def parse_status_url(text: str) -> StatusUrl:
    """Parse the URL of Apache's status page, ``http[s]://HOST[:PORT][/PATH][?QUERY]``.

    Raises ValueError. The default path is /server-status. The function adds ``auto``, which selects mod_status's
    machine-readable form, to a query that lacks it.
    """
    url = parse_page_url(text, DEFAULT_URL)
    path, _, query = url.target.partition("?")
    if "auto" not in query.split("&"):
        query = f"{query}&auto" if query else "auto"
    return StatusUrl(url.scheme, url.endpoint, f"{path}?{query}")


def parse_page_url(text: str, example: str) -> StatusUrl:
    """Parse ``http[s]://HOST[:PORT][/PATH][?QUERY]``. If the URL has no path, the path of ``example`` is used.

    Raises ValueError, with ``example`` in the message.
    """
    scheme, separator, rest = text.strip().partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _PORTS:
        raise ValueError(f"{text!r} is not the URL of a status page; write, for example, {example}")
    rest = rest.partition("#")[0]
    authority, mark, query = rest.partition("?")
    host, slash, path = authority.partition("/")
    if "@" in host:
        raise ValueError(
            f"{text!r}: must not contain a user name or password; allow this host to read the page without a password "
            "('Require local')"
        )
    default = example.partition("://")[2].partition("?")[0].partition("/")[2]
    target = f"/{path if slash else default}"
    if any(not 33 <= ord(character) < 127 for character in target + query):
        raise ValueError(f"{text!r} contains a character that must be written as %XX")
    return StatusUrl(scheme, parse_endpoint(host, _PORTS[scheme]), f"{target}{mark}{query}")


class ServerStatusPage:
    """A web server's status page at one URL."""

    def __init__(
        self, url: StatusUrl, headers: str = "", advice: Mapping[int, str] = APACHE_ADVICE, largest: int = LARGEST
    ) -> None:
        """``headers`` contains additional header lines for the request, each ending with CR LF.

        ``advice`` maps HTTP statuses to what an administrator can do about them. ``largest`` limits the length of the
        response in bytes.
        """
        self.url = url
        self._advice, self._largest = advice, largest
        self._request = (
            f"GET {url.target} HTTP/1.0\r\nHost: {url.host_header}\r\n"
            f"User-Agent: lbdns-agent/{__version__}\r\n{headers}Connection: close\r\n\r\n"
        ).encode()
        self.resolver = BackgroundResolver(url.endpoint)
        self._security: ssl.SSLContext | None = None

    @property
    def addresses(self) -> tuple[bytes, ...]:
        """The server's addresses in network byte order, or an empty tuple until its name has been resolved."""
        return packed_addresses(self.resolver)

    def fetch(self) -> ReadingSteps[bytes]:
        """Return the text of the status page. Raises MissingValueError."""
        try:
            answer = yield from self.exchange()
        except TimeoutError:
            raise MissingValueError(f"{self.url}: no complete response within {TIMEOUT:g} s") from None
        except OSError as error:
            self.resolver.refresh()
            raise MissingValueError(f"{self.url}: {error.strerror or error}") from None
        return status_page_body(answer, str(self.url), self._advice, self._largest)

    def exchange(self) -> ReadingSteps[bytes]:
        """Return the server's whole response, including the head. Raises OSError."""
        with (yield from self._connect()) as connection:
            # The buffer of a new connection has room for the request
            connection.send(self._request)
            parts: list[bytes] = []
            length = 0
            expected = self._largest
            while length < expected:
                part = yield from _receive(connection)
                if not part:
                    break
                parts.append(part)
                length += len(part)
                if len(parts) == 1:
                    expected = min(expected, _whole_length(part, self._largest))
            return b"".join(parts)

    def _connect(self) -> ReadingSteps[socket.socket]:
        waiting = "the address can't be used, or the host name has not been resolved yet"
        error = OSError(self.resolver.error or waiting)
        for family, where in self.resolver.addresses or ():
            connection = socket.socket(family, socket.SOCK_STREAM)
            try:
                connection.setblocking(False)
                if (code := connection.connect_ex(where)) == errno.EINPROGRESS:
                    yield DescriptorWait(connection.fileno(), WRITABLE)
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

    def _secured(self, connection: socket.socket) -> ReadingSteps[socket.socket]:
        import ssl  # takes 5 MB, and http doesn't need it

        if self._security is None:
            self._security = ssl.create_default_context()
        if _address(connection.getpeername()[0]).is_loopback:
            # There is no network to attack, and no authority issues certificates for 127.0.0.1
            self._security.check_hostname = False
            self._security.verify_mode = ssl.CERT_NONE
        secured = self._security.wrap_socket(
            connection, server_hostname=self.url.endpoint.host, do_handshake_on_connect=False
        )
        while True:
            try:
                secured.do_handshake()
            except ssl.SSLWantReadError:
                yield DescriptorWait(secured.fileno(), READABLE)
            except ssl.SSLWantWriteError:
                yield DescriptorWait(secured.fileno(), WRITABLE)
            else:
                return secured


def packed_addresses(resolver: BackgroundResolver) -> tuple[bytes, ...]:
    """Return the addresses of a host in network byte order, or an empty tuple until its name has been resolved."""
    return tuple(_address(where[0]).packed for _, where in resolver.addresses or ())


def _receive(connection: socket.socket) -> ReadingSteps[bytes]:
    while True:
        try:
            return connection.recv(65_536)
        except BlockingIOError:
            yield DescriptorWait(connection.fileno(), READABLE)
        except OSError as error:
            # ssl.SSLWantReadError, by name because http doesn't load the module
            if type(error).__name__ != "SSLWantReadError":
                raise
            yield DescriptorWait(connection.fileno(), READABLE)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(text.partition("%")[0])


def _whole_length(beginning: bytes, unknown: int) -> int:
    """Return the length of the whole response, or ``unknown`` if the header doesn't state it.

    If the length is known, the reader need not wait until the connection closes.
    """
    head, blank, _ = beginning.partition(b"\r\n\r\n")
    length = _content_length(head) if blank else None
    return unknown if length is None else len(head) + len(blank) + length


def _content_length(head: bytes) -> int | None:
    """Return the length of the body according to the header, or None if the header doesn't state it.

    If the length is invalid, the result is larger than any permitted length.
    """
    text = _field(head, b"content-length")
    if text is None:
        return None
    return int(text) if text.isdigit() and len(text) < 16 else 10**15


def _field(head: bytes, name: bytes) -> bytes | None:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


def status_page_body(
    answer: bytes, where: str, advice: Mapping[int, str] = APACHE_ADVICE, largest: int = LARGEST
) -> bytes:
    """Return the body of an HTTP response of less than ``largest`` bytes.

    Raises MissingValueError if the response is malformed, is incomplete or reports an error. Pure.
    """
    head, blank, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split(None, 2)
    if not blank or len(words) < 2 or not words[0].startswith(b"HTTP/") or not re.fullmatch(rb"[0-9]{3}", words[1]):
        raise MissingValueError(f"{where}: the response is not HTTP, or is incomplete")
    status = int(words[1])
    if status != 200:
        hint = f"; {advice[status]}" if status in advice else ""
        if 300 <= status < 400:
            hint = f"; use {(_field(head, b'location') or b'the new address').decode('ascii', 'replace')} instead"
        raise MissingValueError(f"{where}: HTTP status {status}{hint}")
    if len(answer) >= largest:
        raise MissingValueError(
            f"{where}: the page is larger than {largest // 1024} KiB; check that this is the URL of a status page"
        )
    length = _content_length(head)
    if length is not None and len(body) < length:
        raise MissingValueError(f"{where}: the page is incomplete")
    if (_field(head, b"transfer-encoding") or b"").lower() == b"chunked":
        try:
            return join_chunks(body)
        except ValueError:
            raise MissingValueError(f"{where}: the page is incomplete") from None
    return body


def join_chunks(body: bytes) -> bytes:
    """Return the content of a chunked body (RFC 9112 section 7.1). Raises ValueError if it is malformed. Pure."""
    parts: list[bytes] = []
    position = 0
    while True:
        end = body.index(b"\r\n", position)
        digits = body[position:end].partition(b";")[0].strip()
        if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", digits):
            raise ValueError("a chunk must begin with its length")
        position = end + 2
        length = int(digits, 16)
        if length == 0:
            return b"".join(parts)
        parts.append(body[position : position + length])
        position += length + 2
        if body[position - 2 : position] != b"\r\n":
            raise ValueError("a chunk is incomplete")
