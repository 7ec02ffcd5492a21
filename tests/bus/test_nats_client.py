"""Tests of the library's client as lbdns uses it, with a real nats-server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nats import errors

from lbdns.bus.nats_client import NatsClient
from lbdns.secrets.bus_access import BusAccess
from lbdns_shared.bus_url import BusServer, parse_bus_url
from lbdns_shared.nkey import Nkey
from lbdns_tools.nats_servers import COLLECTOR
from tests.bus.bus_fixtures import access, until
from tests.end_to_end.nats_bus import new_bus, serving_bus
from tests.needs import needs

if TYPE_CHECKING:
    from nats.aio.msg import Msg

pytestmark = needs(programs=("nats-server",))


async def test_a_server_without_tls_gets_no_credentials(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    with serving_bus(bus):
        client = NatsClient(access(bus), parse_bus_url(bus.url(COLLECTOR).replace("nats://", "tls://")))
        with pytest.raises(errors.Error, match="does not require TLS"):
            await client.open(30.0)
        await client.end(30.0)


async def test_an_nkey_is_accepted_and_another_one_is_not(tmp_path: Path) -> None:
    bus = replace(new_bus(tmp_path), nkeys={COLLECTOR: Nkey(bytes(32))})
    bus.write()
    with serving_bus(bus):
        [server] = access(bus, COLLECTOR).servers
        client = NatsClient(access(bus, COLLECTOR), server)
        await client.open(30.0)
        await client.end(30.0)
        stranger = NatsClient(BusAccess((server,), nkey=Nkey(bytes(31) + b"1")), server)
        with pytest.raises(errors.Error):
            await stranger.open(30.0)
        await stranger.end(30.0)
        assert "check the user and the password, token or nkey" in stranger.reason("")


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (b"-ERR 'Authorization Violation'\r\n", "the server refuses the credentials"),
        (b"", "the server closed the connection during the login"),
    ],
    ids=["read", "lost"],
)
async def test_a_refusal_is_the_reason_although_the_server_resets_the_connection(refusal: bytes, reason: str) -> None:
    """A server that closes a connection before it has read everything resets the connection."""
    is_read, is_reset = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id": "x", "version": "2.10.0", "max_payload": 1024, "headers": true}\r\n')
        while await reader.readline() != b"PING\r\n":
            pass
        if refusal:
            writer.write(refusal)
            await is_read.wait()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        is_reset.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = parse_bus_url(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        client = NatsClient(BusAccess((address,)), address)
        with pytest.raises((errors.Error, OSError)):
            await client.open(30.0)
        is_read.set()
        await is_reset.wait()
        await client.end(30.0)
        assert client.reason("").startswith(reason)
        assert "check the user and the password, token or nkey" in client.reason("")


async def test_a_server_that_asks_for_no_signature(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    with serving_bus(bus):
        server = parse_bus_url(f"nats://localhost:{bus.port}")
        client = NatsClient(BusAccess((server,), nkey=Nkey(bytes(32))), server)
        with pytest.raises(errors.Error, match="does not ask for a signature; configure the user's nkey there"):
            await client.open(30.0)
        await client.end(30.0)


async def test_refusals_are_kept_and_told_once(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    told: list[tuple[BusServer, str]] = []
    with serving_bus(bus):
        [server] = access(bus, COLLECTOR).servers
        client = NatsClient(access(bus, COLLECTOR), server, lambda *refusal: told.append(refusal))
        await client.open(30.0)
        for _ in range(2):
            await client.publish("Some.Subject", b"")
            await client.flush()
        await until(lambda: told, "the refusal arrives")
        assert list(client.refused) == [("publish", "some.subject")]
        assert [refused for refused, _ in told] == [server]
        await client.end(30.0)
        assert client.over.is_set()


async def test_dropped_messages_are_told_once(tmp_path: Path) -> None:
    """A program that is too slow keeps the connection, and messages that wait take limited memory."""
    bus = new_bus(tmp_path)
    told: list[str] = []
    with serving_bus(bus):
        [server] = access(bus).servers
        client = NatsClient(access(bus), server, lambda _, reason: told.append(reason))
        await client.open(30.0)
        may_go_on = asyncio.Event()

        async def wait(_: Msg) -> None:
            await may_go_on.wait()

        await client.subscribe("subject", cb=wait, pending_bytes_limit=100)
        for _ in range(20):
            await client.publish("subject", b"x" * 50)
        await client.flush()
        await until(lambda: told, "messages are dropped")
        await client.flush()
        assert told == ["messages arrive faster than lbdns processes them; some are dropped"]
        assert client.reason("none") == "none"
        assert not client.over.is_set()
        may_go_on.set()
        await client.end(30.0)


async def test_a_connection_is_over_even_if_it_cannot_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(client: NatsClient) -> None:
        await asyncio.Event().wait()

    bus = new_bus(tmp_path)
    with serving_bus(bus):
        [server] = access(bus).servers
        client = NatsClient(access(bus), server)
        await client.open(30.0)
        monkeypatch.setattr(NatsClient, "close", hang)
        await client.end(0.01, "no longer needed")
        assert client.over.is_set()
        assert client.reason("") == "no longer needed"
        monkeypatch.undo()
        await client.end(30.0)
