"""The two planes, for tests that compare them."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

import pytest

from lbdns.answering.plane import PYTHON_PLANE, NativePlane
from lbdns.answering.responder import Responder
from tests.needs import needs

if TYPE_CHECKING:
    from lbdns_native import DatagramBatch

PLANES: Final = [
    pytest.param(PYTHON_PLANE, id="python"),
    pytest.param(NativePlane(), id="native", marks=needs(native=True)),
]


def answer_batch(batch: DatagramBatch, sock: socket.socket, responder: Responder) -> int:
    """Answer a batch of the queries that wait in ``sock``, at the responder's time, and return how many were read."""
    selector = responder.selector
    read, _, _, unanswered = batch.drain(
        sock.fileno(), responder.table.native, responder.limiter, selector.retransmissions, selector.affinity,
        responder.cookies, responder.now, responder.wall, False,
    )  # fmt: skip
    respond = responder.respond if responder.table.depends_on_clients else responder.respond_slowly
    for query, client, peer, _ in unanswered:
        response = respond(query, client)
        if isinstance(response, bytes):
            batch.reply(sock.fileno(), peer, response)
    return read
