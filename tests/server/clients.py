"""Clients for server tests: plain loopback sockets with a timeout on every operation."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

from lbdns_shared.endpoint import Endpoint

PATIENCE: Final = 120.0  # s: nothing here takes so long unless it hangs


async def until(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait until ``condition`` is true; raise AssertionError on a timeout."""
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    while not condition():
        assert loop.time() < end, "waited in vain"
        await asyncio.sleep(0.005)


def udp_socket(endpoint: Endpoint) -> socket.socket:
    """Return a connected, non-blocking socket, which receives only responses from ``endpoint``."""
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.connect((endpoint.host, endpoint.port))
    return sock


async def ask_udp(endpoint: Endpoint, query: bytes) -> bytes:
    """Send a query over UDP, and return the response. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    with udp_socket(endpoint) as sock:
        await loop.sock_sendall(sock, query)
        return await asyncio.wait_for(loop.sock_recv(sock, 65535), PATIENCE)


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(2, "big") + message


class TcpClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, *queries: bytes) -> None:
        self.writer.write(b"".join(map(framed, queries)))
        await asyncio.wait_for(self.writer.drain(), PATIENCE)

    async def receive(self) -> bytes:
        length = int.from_bytes(await asyncio.wait_for(self.reader.readexactly(2), PATIENCE), "big")
        return await asyncio.wait_for(self.reader.readexactly(length), PATIENCE)

    async def ask(self, query: bytes) -> bytes:
        await self.send(query)
        return await self.receive()

    async def closed(self) -> bytes:
        """Wait until the server closes the connection, and return the data received until then."""
        rest = b""
        try:
            async with asyncio.timeout(PATIENCE):
                while data := await self.reader.read(65536):
                    rest += data
        except ConnectionError:
            pass
        return rest


@asynccontextmanager
async def tcp_client(endpoint: Endpoint, source: str | None = None) -> AsyncIterator[TcpClient]:
    local = (source, 0) if source else None
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, local_addr=local)
    try:
        yield TcpClient(reader, writer)
    finally:
        writer.close()


async def ask_tcp(endpoint: Endpoint, query: bytes) -> bytes:
    async with tcp_client(endpoint) as client:
        return await client.ask(query)


def with_ids(query: bytes, numbers: Iterable[int]) -> list[bytes]:
    """Return copies of a query with different IDs."""
    return [number.to_bytes(2, "big") + query[2:] for number in numbers]
