"""Fake upstreams for tests of forwarding, on a loopback address (UDP and TCP). Each test sets their behaviour."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

from lbdns_shared.endpoint import Endpoint
from lbdns_tools.free_ports import free_ports

ADDRESS: Final = "192.0.2.80"
LIE: Final = "203.0.113.66"

#: What is sent back to a query, message by message; nothing if it stays silent.
Behaviour = Callable[[dns.message.Message], Iterable[bytes]]


def response(query: dns.message.Message, address: str = ADDRESS) -> dns.message.Message:
    """Return a response that contains one address, whatever the question is."""
    made = dns.message.make_response(query, recursion_available=True)
    made.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", address))
    return made


def lie(query: dns.message.Message) -> dns.message.Message:
    return response(query, LIE)


def good(query: dns.message.Message) -> Iterable[bytes]:
    return [response(query).to_wire()]


def silent(query: dns.message.Message) -> Iterable[bytes]:
    return []


def failing(rcode: dns.rcode.Rcode) -> Behaviour:
    """Says that it can't."""

    def behave(query: dns.message.Message) -> Iterable[bytes]:
        made = dns.message.make_response(query, recursion_available=True)
        made.set_rcode(rcode)
        return [made.to_wire()]

    return behave


def cut(query: dns.message.Message) -> Iterable[bytes]:
    """Says: ask over TCP."""
    made = dns.message.make_response(query, recursion_available=True)
    made.flags |= dns.flags.TC
    return [made.to_wire()]


class FakeUpstream(asyncio.DatagramProtocol):
    """``asked`` and ``asked_tcp``: queries received over UDP and TCP; ``sources``: source addresses of UDP queries."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.endpoint = Endpoint(host, free_ports(1)[0])
        self.udp: Behaviour = good
        self.tcp: Behaviour = good
        self.asked: list[dns.message.Message] = []
        self.sources: list[tuple[str, int]] = []
        self.asked_tcp: list[dns.message.Message] = []
        self.held = asyncio.Event()  # clear: queries wait for it
        self.held.set()
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        query = dns.message.from_wire(data)
        self.asked.append(query)
        self.sources.append((addr[0], addr[1]))
        task = asyncio.create_task(self._answer(query, addr))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, query: dns.message.Message, addr: tuple[str | Any, int]) -> None:
        await self.held.wait()
        for message in self.udp(query):
            self._transport.sendto(message, addr)

    async def on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            length = int.from_bytes(await reader.readexactly(2), "big")
            query = dns.message.from_wire(await reader.readexactly(length))
            self.asked_tcp.append(query)
            for message in self.tcp(query):
                writer.write(len(message).to_bytes(2, "big") + message)
        except (EOFError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def upstream(
    udp: Behaviour = good, tcp: Behaviour = good, host: str = "127.0.0.1"
) -> AsyncIterator[FakeUpstream]:
    """A running one."""
    fake = FakeUpstream(host)
    fake.udp, fake.tcp = udp, tcp
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: fake, local_addr=(host, fake.endpoint.port))
    server = await asyncio.start_server(fake.on_connection, host, fake.endpoint.port)
    try:
        yield fake
    finally:
        transport.close()
        server.close()
        for task in fake._tasks:
            task.cancel()
