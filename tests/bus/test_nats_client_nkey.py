"""Tests of the credentials that nats-py sends for an nkey. lbdns sets private attributes of nats-py for this."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from lbdns.bus.nats_client import NatsClient
from lbdns.secrets.bus_access import BusAccess
from lbdns_shared.bus_url import parse_bus_url
from lbdns_shared.nkey import Nkey

NKEY = Nkey(bytes(range(32)))
NONCE = "Xh4k_nonce"


async def test_the_public_key_and_a_signature_are_sent_but_no_other_credentials() -> None:
    sent: list[dict[str, Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {"server_id": "x", "version": "2.10.0", "max_payload": 1024, "headers": True, "nonce": NONCE}
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        while line := await reader.readline():
            if line.startswith(b"CONNECT "):
                sent.append(json.loads(line[len(b"CONNECT ") :]))
            elif line == b"PING\r\n":
                writer.write(b"PONG\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = parse_bus_url(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        client = NatsClient(BusAccess((address,), nkey=NKEY), address)
        await client.open(30.0)
        await client.end(30.0)
    [connect] = sent
    assert (connect["nkey"], connect["sig"]) == (NKEY.public_key, NKEY.sign(NONCE))
    assert not {"user", "pass", "auth_token", "jwt"} & set(connect)
