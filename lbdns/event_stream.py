"""Server-sent events (WHATWG HTML, section 9.2): writing them and reading them. Pure: bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_EVENT: Final = 64 * 2**20  # bytes; a status of 100,000 members has about half

KEEP_ALIVE: Final = b": keep-alive\n\n"  # a comment: readers ignore it, and know that the line lives


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    data: bytes


def encode_event(name: str, data: bytes) -> bytes:
    """One event; ``data`` has no line end in it, as JSON on one line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode("ascii"), data)


class EventReader:
    """Puts the events of a stream together again from pieces of any size.

    Lines end in LF or CRLF; several data lines are joined by LF; comments and unknown fields are skipped;
    an event without a name is called "message".
    """

    def __init__(self) -> None:
        self._rest = bytearray()  # the line that has begun
        self._name = "message"
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The events that ``piece`` completes. Raises ValueError when one is over MAX_EVENT bytes."""
        *lines, rest = piece.split(b"\n")
        for line in lines:
            self._rest += line
            whole = bytes(self._rest.removesuffix(b"\r"))
            self._rest.clear()
            yield from self._line(whole)
        self._rest += rest
        if len(self._rest) + sum(map(len, self._data)) > MAX_EVENT:
            raise ValueError(f"an event is over the limit of {MAX_EVENT} bytes")

    def _line(self, line: bytes) -> Iterator[Event]:
        if not line:
            if self._data:
                yield Event(self._name, b"\n".join(self._data))
            self._name, self._data = "message", []
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
