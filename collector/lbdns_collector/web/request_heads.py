"""Request heads: splits the bytes that a client sends into complete heads of HTTP requests. Sans-I/O."""

from __future__ import annotations

import re
from typing import Final

MAX_HEAD: Final = 16_384  # bytes of a request line with its headers
HEALTH: Final = "/healthz"
LIVE: Final = "/livez"
PROBES: Final = (HEALTH, LIVE)  # require no credentials; places are reserved for them
_END: Final = re.compile(rb"\n\r?\n")  # a line without CR also ends here; the HTTP parser then refuses it
_METHOD_START: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


class NotHttpError(Exception):
    """Raised if the client sends something other than HTTP, such as a TLS handshake."""


class HeadTooLongError(Exception):
    """Raised if a request head is longer than MAX_HEAD bytes."""


class RequestHeads:
    """The bytes of one connection that have been received but not passed on yet."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0  # bytes that contain no end of a head

    def __len__(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Append received bytes to the buffer."""
        self._buffer += data

    def next(self) -> bytes | None:
        """Remove and return the next head with its final empty line, or return None if the head is incomplete.

        Empty lines before a head are skipped (RFC 9112, section 2.2). Raises NotHttpError or HeadTooLongError.
        """
        if not self._searched:
            del self._buffer[: len(self._buffer) - len(self._buffer.lstrip(b"\r\n"))]
            if self._buffer and self._buffer[0] not in _METHOD_START:
                raise NotHttpError
        found = _END.search(self._buffer, max(0, self._searched - 2))
        length = found.end() if found else len(self._buffer)
        if length > MAX_HEAD:
            raise HeadTooLongError
        if found is None:
            self._searched = length
            return None
        head = bytes(self._buffer[:length])
        del self._buffer[:length]
        self._searched = 0
        return head


def path_of(head: bytes) -> str:
    """Return the path in a request head, without the query string, or an empty string if there is none."""
    words = head.split(b"\n", 1)[0].split()
    return words[1].partition(b"?")[0].decode("latin-1") if len(words) > 1 else ""
