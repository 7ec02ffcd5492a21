"""Answers some thousand queries over UDP on the loopback with the native plane, and prints a digest of all responses.

A package's Python runs this program in a root file system; it needs only that package. Clock, secrets and plans are
fixed, so that the responses are the same bytes on every processor architecture.
"""

from __future__ import annotations

import hashlib
import json
import platform
import socket
import struct
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.plane import NativePlane
from lbdns.answering.responder import Responder
from lbdns.model.farm_reader import load_farm
from lbdns.policies.plan import Plan

if TYPE_CHECKING:
    from lbdns_native import DatagramBatch

ROUNDS: Final = 8
BATCH: Final = 32  # queries that wait in the socket at once
_SECRET: Final = bytes(range(16))
_NOW: Final = 1000.0  # monotonic seconds at the first batch
_WALL: Final = 1_700_000_000.0  # Unix seconds at the first batch
_LIMIT: Final = 60.0  # seconds for one response on a busy machine
_NAMES: Final = (
    "best.example.com", "BEST.eXample.com", "round.robin.example.com", "web1.example.com", "web2.example.com",
    "example.com", "nowhere.example.com", "a.b.example.com", "example.org", "",
)  # fmt: skip
_TYPES: Final = (1, 28, 5, 15, 2, 6, 16, 255, 65)  # A, AAAA, CNAME, MX, NS, SOA, TXT, ANY, HTTPS
_COOKIE: Final = struct.pack("!HH8s", 10, 8, b"8 bytes!")


def _opt(payload: int, flags: int = 0, options: bytes = b"") -> bytes:
    return b"\0" + struct.pack("!HHIH", 41, payload, flags, len(options)) + options


#: No EDNS, EDNS with several payload sizes, DO and a cookie, and an unknown version of EDNS
_ADDITIONAL: Final = (b"", _opt(512), _opt(1232), _opt(4096, 0x8000), _opt(1232, 0, _COOKIE), _opt(1232, 0x10000))


def queries() -> list[bytes]:
    """Return the queries in wire form; no two have the same ID, so that none is a retransmission."""
    found: list[bytes] = []
    for _, name, rtype, additional, recursion in product(range(ROUNDS), _NAMES, _TYPES, _ADDITIONAL, (0, 0x0100)):
        labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label)
        head = struct.pack("!HHHHHH", len(found) % 65_536, recursion, 1, 0, 0, bool(additional))
        found.append(head + labels + b"\0" + struct.pack("!HH", rtype, 1) + additional)
    return found


def answer_all(configuration: Path) -> dict[str, object]:
    """Answer all queries, and return how many there were, how many took the slow path, and the digest."""
    plane = NativePlane()
    responder = Responder(AnswerTable(load_farm(configuration), plane), (_SECRET,))
    for cursor in responder.table.cursors.values():
        cursor.set_plan(Plan((0, 1, 1)))
    batch, slow = plane.datagram_batch(), 0
    digest, asked = hashlib.sha256(), queries()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, socket.socket(sock.family, sock.type) as client:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        client.connect(sock.getsockname())
        client.settimeout(_LIMIT)
        for start in range(0, len(asked), BATCH):
            waiting = asked[start : start + BATCH]
            for query in waiting:
                client.send(query)
            responder.tick(_NOW + start, _WALL + start)
            slow += answer_batch(batch, sock, responder)
            for _ in waiting:
                digest.update(client.recv(65_535))
    return {"queries": len(asked), "slow": slow, "digest": digest.hexdigest()}


def answer_batch(batch: DatagramBatch, sock: socket.socket, responder: Responder) -> int:
    """Answer the queries that wait in ``sock``, and return how many took the slow path."""
    selector = responder.selector
    *_, unanswered = batch.drain(
        sock.fileno(), responder.table.native, responder.limiter, selector.retransmissions, selector.affinity,
        responder.cookies, responder.now, responder.wall, False,
    )  # fmt: skip
    for query, client, peer, _ in unanswered:
        response = responder.respond_slowly(query, client)
        if not isinstance(response, bytes) or not batch.reply(sock.fileno(), peer, response):
            raise SystemExit(f"no response to {query.hex()}")
    return len(unanswered)


if __name__ == "__main__":
    print(json.dumps({"machine": platform.machine(), **answer_all(Path(sys.argv[1]))}))
