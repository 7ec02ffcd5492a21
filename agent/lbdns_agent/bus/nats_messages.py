"""The messages of the NATS client protocol that a publisher needs: reads those of a server, writes those of a client.

Sans-I/O. The server sends lines that end with CR LF: INFO with a JSON object, PING, PONG, +OK, and -ERR with a text.
Since the agent subscribes to nothing, it never receives a MSG.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lbdns_agent.bus.bus_error import BusError

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"
LONGEST_LINE: Final = 256 * 1024  # bytes; INFO lists the addresses of all servers in a cluster
_LONGEST_TEXT: Final = 200  # characters of a server's text in an error message


@dataclass(frozen=True)
class ServerMessage:
    """A message from a server: ``kind`` is "INFO", "PING", "PONG", "+OK" or "-ERR".

    ``info`` is the object of an INFO message. ``text`` is the text of an error, without quotes and control characters.
    """

    kind: str
    info: Mapping[str, Any]
    text: str = ""


class MessageReader:
    """Divides the bytes from a server into messages, however the bytes are divided into pieces."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def has_more(self) -> bool:
        """Whether bytes have arrived that are not part of a returned message."""
        return bool(self._rest)

    def read(self, data: bytes) -> Iterator[ServerMessage]:
        """Yield each message that ``data`` completes. Raises BusError if the bytes are not from a NATS server."""
        self._rest += data
        while True:
            line, end, rest = self._rest.partition(b"\n")
            if len(line) > LONGEST_LINE:
                raise BusError(f"the server sent a line of more than {LONGEST_LINE} bytes, so it is not a NATS server")
            if not end:
                return
            self._rest = rest
            yield _parse(line.rstrip(b"\r"))


def _parse(line: bytes) -> ServerMessage:
    word, _, rest = line.partition(b" ")
    kind = word.upper().decode("latin-1")  # names of messages are case-insensitive
    if kind in ("PING", "PONG", "+OK"):
        return ServerMessage(kind, {})
    if kind == "-ERR":
        return ServerMessage(kind, {}, readable(rest.strip().strip(b"'")))
    if kind == "INFO":
        try:
            info = json.loads(rest)
        except (ValueError, RecursionError):
            info = None
        if isinstance(info, dict):
            return ServerMessage(kind, info)
    raise BusError(f"the server sent {readable(line)!r}, so it is not a NATS server")


def readable(text: bytes) -> str:
    """Return a server's text for an error message: short, and without control characters."""
    found = text.decode("utf-8", "replace")[:_LONGEST_TEXT]
    return "".join(character if character.isprintable() else "?" for character in found)


def connect_message(name: str, version: str, tls: bool, credentials: Mapping[str, str]) -> bytes:
    """Return the message CONNECT. ``name`` and ``version`` describe the client to the server's operators."""
    fields = {
        "verbose": False, "pedantic": False, "tls_required": tls, "name": name, "lang": "python", "version": version,
        "protocol": 0, **credentials,
    }  # fmt: skip
    return b"CONNECT " + json.dumps(fields).encode("ascii") + b"\r\n"


def publish_message(subject: str, payload: bytes) -> bytes:
    return b"PUB %s %d\r\n%s\r\n" % (subject.encode("ascii"), len(payload), payload)
