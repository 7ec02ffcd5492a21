"""Tests of zone transfers during other queries: slow readers, the transfer limit, and no delays for other clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import dns.message
import dns.rcode
import dns.rdatatype
import pytest

from lbdns.answering.responder import Responder
from lbdns.answering.zone_transfer import content, messages
from lbdns.counting.response_times import ResponseTimes
from lbdns.server.transport import tcp, transfer_queue
from lbdns.server.transport.tcp import TcpServer
from lbdns.sockets.dns_sockets import open_tcp
from lbdns.zones import names
from lbdns.zones.master_file import RRset
from lbdns_shared.endpoint import Endpoint
from tests.answering.asking import make_query
from tests.answering.farms import hobbit
from tests.answering.secondaries import query_for, responder_for, with_secondaries
from tests.server.clients import TcpClient, ask_tcp, framed, tcp_client, until

ORIGIN = b"\6hobbit\0"
TXT = (b"\xff" + b"x" * 255) * 16
AXFR = query_for().to_wire()
LARGE = 4000  # names: about 16 MB, more than the kernel buffers of a connection hold


def large_responder(count: int = LARGE) -> Responder:
    farm = with_secondaries(hobbit())
    zone = farm.zones[ORIGIN]
    more = {names.from_text(f"n{i}.hobbit"): {16: RRset(300, (TXT,))} for i in range(count)}
    return responder_for(replace(farm, zones={**farm.zones, ORIGIN: replace(zone, nodes={**zone.nodes, **more})}))


@pytest.fixture(scope="module")
def responder() -> Responder:
    return large_responder()


@asynccontextmanager
async def tcp_server(responder: Responder) -> AsyncIterator[TcpServer]:
    server = TcpServer(open_tcp(Endpoint("127.0.0.1", 0)), responder, ResponseTimes())
    await server.start(asyncio.get_running_loop())
    try:
        yield server
    finally:
        await server.stop()


async def whole_zone(client: TcpClient, responder: Responder) -> None:
    """Read a whole transfer: the zone's records, with its SOA record first and last."""
    farm = responder.table.farm
    left = 2 + sum(1 for _ in content(farm.zones[ORIGIN], farm.pools))
    while left > 0:
        message = await client.receive()
        assert message[3] & 0xF == dns.rcode.NOERROR
        left -= int.from_bytes(message[6:8], "big")
    assert left == 0
    assert [rrset.rdtype for rrset in dns.message.from_wire(message).answer][-1] == dns.rdatatype.SOA


async def test_what_was_asked_before_and_after_is_answered_in_order(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    before, after = make_query("bilbo.hobbit", ident=1), make_query("frodo.hobbit", ident=2)
    small = large_responder(50)
    async with tcp_server(small) as server, tcp_client(server.endpoint) as client:
        await client.send(before, AXFR, after)
        assert (await client.receive())[:2] == b"\0\1"
        await whole_zone(client, small)
        assert (await client.receive())[:2] == b"\0\2"
        assert await client.ask(before)
        assert [r.getMessage() for r in caplog.records] == ["zone hobbit: transferred to 127.0.0.1"]


async def test_half_closed_the_zone_comes_whole() -> None:
    small = large_responder(50)
    async with tcp_server(small) as server, tcp_client(server.endpoint) as client:
        client.writer.write(framed(AXFR))
        client.writer.write_eof()
        await whole_zone(client, small)
        assert await client.closed() == b""


async def test_who_does_not_read_holds_up_nobody_and_costs_little(responder: Responder) -> None:
    async with (
        tcp_server(responder) as server,
        tcp_client(server.endpoint) as idle,
        tcp_client(server.endpoint) as other,
    ):
        await idle.send(AXFR)
        idle.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await until(lambda: any(c.busy for c in server.connections))
        held = [c.transport.get_write_buffer_size() for c in server.connections]
        assert max(held) < 200_000
        assert (await other.ask(make_query("bilbo.hobbit")))[3] & 0xF == 0
        await other.send(AXFR)
        await whole_zone(other, responder)


async def test_who_does_not_read_at_all_is_dropped_and_the_next_has_its_turn(
    monkeypatch: pytest.MonkeyPatch, responder: Responder
) -> None:
    monkeypatch.setattr(transfer_queue, "TRANSFERS_AT_ONCE", 1)
    monkeypatch.setattr(tcp, "IDLE", 1.0)
    monkeypatch.setattr(tcp, "SWEEP", 0.05)
    async with tcp_server(responder) as server, AsyncExitStack() as clients:
        idle, waiting = [await clients.enter_async_context(tcp_client(server.endpoint)) for _ in range(2)]
        await idle.send(AXFR)
        idle.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await until(lambda: any(c.busy for c in server.connections))
        await waiting.send(AXFR)
        await whole_zone(waiting, responder)
        assert server.closed_early == 1


async def test_who_waits_in_line_too_long_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_queue, "TRANSFERS_AT_ONCE", 0)
    monkeypatch.setattr(tcp, "IN_LINE", 0.1)
    monkeypatch.setattr(tcp, "SWEEP", 0.05)
    async with tcp_server(large_responder(10)) as server, tcp_client(server.endpoint) as client:
        await client.send(AXFR)
        await client.closed()
        assert not server.connections


async def test_a_client_that_goes_away_makes_room(monkeypatch: pytest.MonkeyPatch, responder: Responder) -> None:
    monkeypatch.setattr(transfer_queue, "TRANSFERS_AT_ONCE", 1)
    async with tcp_server(responder) as server:
        async with tcp_client(server.endpoint) as gone:
            await gone.send(AXFR)
            await gone.receive()
            gone.writer.transport.abort()
        async with tcp_client(server.endpoint) as client:
            await client.send(AXFR)
            await whole_zone(client, responder)


async def test_a_mistake_on_the_way_ends_the_connection_and_not_the_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: Any) -> Any:
        yield next(messages(*arguments))
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("lbdns.answering.zone_transfer.messages", broken)
    async with tcp_server(large_responder(50)) as server:
        async with tcp_client(server.endpoint) as client:
            await client.send(AXFR)
            await client.receive()
            await client.closed()
        assert server.errors.count == 1
        assert await ask_tcp(server.endpoint, make_query("bilbo.hobbit"))


async def test_a_transfer_that_ends_with_an_error_is_logged_as_failed(caplog: pytest.LogCaptureFixture) -> None:
    long = "a TXT " + " ".join(['"' + "x" * 250 + '"'] * 261) + "\n"
    async with tcp_server(responder_for(with_secondaries(hobbit(more=long)))) as server:
        with caplog.at_level(logging.INFO, "lbdns.server"):
            async with tcp_client(server.endpoint) as client:
                await client.send(AXFR)
                rcode = 0
                while not rcode:
                    rcode = (await client.receive())[3] & 0xF
                assert rcode == dns.rcode.SERVFAIL
                await until(lambda: bool(caplog.records))
                # The connection stays usable: the error is complete in itself
                assert (await client.ask(make_query("bilbo.hobbit")))[3] & 0xF == 0
        (record,) = caplog.records
        reason = "the TXT record of a.hobbit (65511 octets) does not fit into a message"
        assert record.getMessage() == f"zone hobbit: the transfer to 127.0.0.1 failed: {reason}"
        assert record.levelno == logging.WARNING
        assert server.errors.count == 0
