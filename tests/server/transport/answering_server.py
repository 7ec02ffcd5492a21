"""A TCP server that answers for the zone hobbit, and the queries that tests send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lbdns.answering.responder import Responder
from lbdns.counting.response_times import ResponseTimes
from lbdns.server.transport.tcp import TcpServer
from lbdns.sockets.dns_sockets import open_tcp
from lbdns_shared.endpoint import Endpoint
from tests.answering.asking import make_query, make_responder
from tests.answering.farms import hobbit
from tests.server.clients import until

QUERY = make_query("round.robin.hobbit")
LONG = make_query("huge.hobbit", "TXT")


@asynccontextmanager
async def answering(responder: Responder | None = None) -> AsyncIterator[TcpServer]:
    server = TcpServer(open_tcp(Endpoint("127.0.0.1", 0)), responder or make_responder(hobbit()), ResponseTimes())
    await server.start(asyncio.get_running_loop())
    try:
        yield server
    finally:
        await server.stop()
        await until(lambda: not server.connections)
        assert not server._per_network


def ids(answers: list[bytes]) -> list[int]:
    return [int.from_bytes(answer[:2], "big") for answer in answers]
