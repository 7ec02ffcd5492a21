"""A parser for HTTP/1.0 and HTTP/1.1 responses (RFC 9112) that accepts pieces of any size and does not store bodies.
Sans-I/O.

Call ``HttpResponse.feed`` with each piece that arrives. ``feed`` returns True when the response is complete. Call
``HttpResponse.end`` when the server closes the connection. Both ``feed`` and ``end`` raise ProtocolError if the bytes
are not valid HTTP.
"""

from __future__ import annotations

import re
from typing import Final

from lbdns_tools.load.request_mix import RequestTarget

MAX_HEAD: Final = 65_536  # bytes of a status line and header fields; servers send a few hundred
MAX_LINE: Final = 4_096  # bytes of the line before a chunk, including extensions
MAX_TRAILER: Final = 65_536  # bytes after the last chunk
MAX_INTERIM: Final = 8  # 1xx responses before the final response

_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n]*)?\r?$")
#: The fields that determine where a body ends and whether the connection persists, in a lower-case head
_FIELDS: Final = re.compile(rb"\n(content-length|transfer-encoding|connection)[ \t]*:[ \t]*([^\r\n]*)")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")
_HEAD_END: Final = re.compile(rb"\n\r?\n")

_IN_HEAD, _IN_BODY, _IN_CHUNKS, _UNTIL_CLOSE = range(4)


class ProtocolError(Exception):
    """The exception raised if the received bytes are not a valid and complete HTTP response."""


def request_bytes(target: RequestTarget, keep_alive: bool) -> bytes:
    """Return the bytes of a minimal HTTP request for a target."""
    lines = [
        f"GET {target.path} HTTP/1.1",
        f"Host: {target.authority}",
        "User-Agent: lbdns-load",
        "Accept: */*",
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
    ]
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("ascii")


class HttpResponse:
    """One HTTP response. ``status`` is 0 until the head is complete. ``bytes`` is the length of the body without
    framing."""

    __slots__ = ("_held", "_interim", "_left", "_state", "bytes", "is_empty", "keeps", "status")

    def __init__(self) -> None:
        self.status = self.bytes = 0
        self.keeps = False  # whether the connection can be used again
        self.is_empty = True  # whether no byte has arrived
        self._state = _IN_HEAD
        self._held = b""  # incomplete bytes of a head, or of a line between chunks
        self._left = 0  # bytes that the body, or the chunk with its line end, still lacks
        self._interim = 0

    @property
    def skippable(self) -> int:
        """The number of body bytes that the caller may skip, because they require no parsing."""
        if self._state == _IN_BODY:
            return self._left
        return 1 << 20 if self._state == _UNTIL_CLOSE else 0

    def skip(self, count: int) -> bool:
        """Record that the caller has skipped ``count`` body bytes. Return whether the response is now complete."""
        self.bytes += count
        if self._state == _UNTIL_CLOSE:
            return False
        self._left -= count
        return self._left == 0

    def feed(self, data: bytes) -> bool:
        """Parse the next bytes, and return whether the response is complete. Raises ProtocolError."""
        self.is_empty = False
        if self._state == _IN_HEAD:
            found = self._read_head(data)
            if found is None:
                return False
            data = found
        if self._state == _IN_CHUNKS:
            return self._read_chunks(data)
        if self._state == _UNTIL_CLOSE:
            self.bytes += len(data)
            return False
        if len(data) > self._left:
            raise ProtocolError(f"the body is {len(data) - self._left} bytes longer than announced")
        self._left -= len(data)
        self.bytes += len(data)
        return self._left == 0

    def end(self) -> None:
        """Handle the end of the connection. Raises ProtocolError if the server closed it before the response was
        complete."""
        if self._state != _UNTIL_CLOSE:
            raise ProtocolError("the server closed the connection in the middle of a response")

    def _read_head(self, data: bytes) -> bytes | None:
        """Return the bytes that follow the head, or None if the head is incomplete."""
        while True:
            held = self._held + data if self._held else data
            # Search only the new bytes for the end of the head
            match = _HEAD_END.search(held, max(0, len(self._held) - 2))
            if (match.end() if match else len(held)) > MAX_HEAD:
                raise ProtocolError(f"the response header exceeds {MAX_HEAD} bytes")
            if match is None:
                if not b"HTTP/1.".startswith(held[:7]):
                    raise ProtocolError(f"the status line is not valid: {held[:20]!r}")
                self._held = held
                return None
            self._held = b""
            data = held[match.end() :]
            if self._understand(held[: match.end() - 1]):
                return data

    def _understand(self, head: bytes) -> bool:
        """Parse a complete head. Return False for an interim (1xx) response, because another head follows."""
        line, _, _ = head.partition(b"\n")
        match = _STATUS.match(line)
        if match is None:
            raise ProtocolError(f"the status line is not valid: {line[:40]!r}")
        status = int(match[2])
        if status < 200:
            self._interim += 1
            if status == 101 or self._interim > MAX_INTERIM:
                raise ProtocolError(f"unexpected status {status}")
            return False
        self.status = status
        length, codings, keeps = _framing(head.lower(), match[1] == b"1")
        self.keeps = keeps
        if status in (204, 304):
            self._state = _IN_BODY
        elif codings:
            # RFC 9112 section 6.3: a response whose last coding is not chunked extends until the connection closes
            self._state = _IN_CHUNKS if codings[-1] == b"chunked" else _UNTIL_CLOSE
            self.keeps = keeps and length is None and self._state == _IN_CHUNKS
        elif length is not None:
            self._state, self._left = _IN_BODY, length
        else:
            self._state, self.keeps = _UNTIL_CLOSE, False
        return True

    def _read_chunks(self, data: bytes) -> bool:
        at = 0
        if self._held:
            data, self._held = self._held + data, b""
        while True:
            if self._left:
                at = self._take(data, at)
                if self._left:
                    return False
            match = _SIZE.match(data, at)
            if match is None:
                self._hold(data[at:], MAX_LINE)
                return False
            size = int(match[1], 16)
            if not size:
                return self._read_trailer(data, at, match.end())
            at, self._left = match.end(), size + 2

    def _take(self, data: bytes, at: int) -> int:
        """Count the bytes of a chunk in ``data``, excluding its final CRLF, and return the offset after the chunk."""
        here = min(self._left, len(data) - at)
        self.bytes += max(0, min(here, self._left - 2))
        for place in range(max(0, self._left - 2), here):
            if data[at + place] != b"\r\n"[place - self._left]:
                raise ProtocolError("a chunk is longer than its declared size")
        self._left -= here
        return at + here

    def _read_trailer(self, data: bytes, begin: int, at: int) -> bool:
        """Read the trailer fields up to the empty line. ``begin`` is the offset of the last chunk's size line."""
        while True:
            end = data.find(b"\n", at)
            if end < 0:
                self._hold(data[begin:], MAX_TRAILER)
                return False
            if data[at:end] in (b"", b"\r"):
                break
            at = end + 1
        if end + 1 < len(data):
            raise ProtocolError(f"the last chunk is followed by {len(data) - end - 1} unexpected bytes")
        return True

    def _hold(self, data: bytes, limit: int) -> None:
        if len(data) > limit:
            raise ProtocolError(f"a line between chunks exceeds {limit} bytes")
        if limit == MAX_LINE and (b"\n" in data or (data and data[0] not in b"0123456789abcdefABCDEF")):
            raise ProtocolError(f"the chunk size is not valid: {data[:20]!r}")
        self._held = data


def _framing(head: bytes, is_1_1: bool) -> tuple[int | None, list[bytes], bool]:
    """Return the content length, the transfer codings, and whether the connection is persistent. ``head`` must be in
    lower case."""
    length: int | None = None
    codings: list[bytes] = []
    keeps = is_1_1  # RFC 9112 section 9.3
    for name, value in _FIELDS.findall(head):
        if name == b"connection":
            options = [option.strip() for option in value.split(b",")]
            keeps = b"close" not in options and (keeps or b"keep-alive" in options)
        elif name == b"transfer-encoding":
            codings += [coding.strip() for coding in value.split(b",")]
        else:
            for part in map(bytes.strip, value.split(b",")):
                if not _LENGTH.fullmatch(part) or length not in (None, int(part)):
                    raise ProtocolError(
                        f"content-length {value[:40]!r} is not valid or contradicts an earlier content-length"
                    )
                length = int(part)
    return length, codings, keeps
