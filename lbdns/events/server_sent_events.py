"""Writes server-sent events (WHATWG HTML, section 9.2) and reads them incrementally.

This module is sans-I/O: it converts between events and bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_EVENT: Final = 64 * 2**20  # bytes; a status of 100,000 members takes about half

KEEP_ALIVE: Final = b": keep-alive\n\n"  # a comment: clients ignore it, but see that the connection works


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """A server-sent event."""

    name: str
    data: bytes


def encode_event(name: str, data: bytes) -> bytes:
    """Return one event as bytes. ``data`` must not contain line breaks."""
    return b"event: %s\ndata: %s\n\n" % (name.encode("ascii"), data)


class ServerSentEventReader:
    """A parser that assembles events from a stream that arrives in pieces of any size.

    Lines end in LF or CRLF. The data lines of an event are joined with LF. Comments and unknown fields are skipped. An
    event without a name is named "message".
    """

    def __init__(self) -> None:
        self._rest = bytearray()  # the current, incomplete line
        self._name = "message"
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[ServerSentEvent]:
        """Add ``piece`` to the stream, and yield each event that is now complete. Raises ValueError if an event exceeds
        MAX_EVENT bytes.
        """
        *lines, rest = piece.split(b"\n")
        for line in lines:
            self._rest += line
            whole = bytes(self._rest.removesuffix(b"\r"))
            self._rest.clear()
            yield from self._line(whole)
        self._rest += rest
        if len(self._rest) + sum(map(len, self._data)) > MAX_EVENT:
            raise ValueError(f"an event exceeds the limit of {MAX_EVENT} bytes")

    def _line(self, line: bytes) -> Iterator[ServerSentEvent]:
        if not line:
            if self._data:
                yield ServerSentEvent(self._name, b"\n".join(self._data))
            self._name, self._data = "message", []
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
