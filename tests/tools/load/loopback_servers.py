"""Small servers on the loopback interface, each in a separate thread: DNS, and HTTP with and without faults."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import cast

import dns.flags
import dns.message
import dns.rrset

PATIENCE = 30.0  # seconds until a server must run, and must have ended
PAGE = b"x" * 1024
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n" + PAGE

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
#: What a server does with a connection; it is closed afterwards
Behaviour = Callable[["Web", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Web:
    """The connections and requests that a web server has received."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = self.requests = 0
        self.heads: list[bytes] = []
        self.peers: set[str] = set()

    async def head(self, reader: asyncio.StreamReader) -> bytes:
        """Read and record the header of the next request. Raises EOFError."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests += 1
        self.heads.append(head)
        return head


def answering(*pieces: bytes, keep: bool = False, pause_s: float = 0.0) -> Behaviour:
    """Return a behaviour that responds to each request with ``pieces``, sent separately."""

    async def behave(web: Web, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await web.head(reader)
            for piece in pieces:
                if pause_s:
                    await asyncio.sleep(pause_s)
                writer.write(piece)
                await writer.drain()
            if not keep:
                return

    return behave


async def resetting(web: Web, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reset the connection after receiving a request (SO_LINGER of 0 s)."""
    await web.head(reader)
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def stalling(web: Web, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Never respond to a request, and wait until the client closes the connection."""
    await web.head(reader)
    await reader.read()


@contextlib.contextmanager
def web(
    behaviour: Behaviour, address: str = "127.0.0.1", port: int = 0, context: ssl.SSLContext | None = None
) -> Iterator[Web]:
    """Run a web server that handles every connection with ``behaviour``, with TLS if ``context`` is given. The default
    port is a free one."""
    seen = Web()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        seen.peers.add(writer.get_extra_info("peername")[0])
        with contextlib.suppress(OSError, EOFError):
            await behaviour(seen, reader, writer)
        writer.close()

    @asynccontextmanager
    async def served() -> AsyncIterator[None]:
        server = await asyncio.start_server(serve, address, port, backlog=1024, ssl=context)
        seen.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()

    with _in_thread(served):
        yield seen


class Names:
    """A DNS server's records and query counts. ``answers`` maps names to records such as "A 127.0.0.1"."""

    def __init__(self, answers: Mapping[str, tuple[str, ...]], ttl: int) -> None:
        self.answers, self.ttl = dict(answers), ttl
        self.port = 0
        self.queries = self.over_tcp = 0
        self.ports: set[int] = set()
        self.silent = 0  # so many queries are not answered
        self.truncates = False

    def respond(self, wire: bytes, over_tcp: bool) -> bytes | None:
        query = dns.message.from_wire(wire)
        self.queries += 1
        self.over_tcp += over_tcp
        if self.silent:
            self.silent -= 1
            return None
        response = dns.message.make_response(query)
        if self.truncates and not over_tcp:
            response.flags |= dns.flags.TC
            return response.to_wire()
        name = query.question[0].name
        kind = dns.rdatatype.to_text(query.question[0].rdtype)
        owner = name.to_text().lower()
        if owner not in self.answers:
            response.set_rcode(dns.rcode.NXDOMAIN)
            return response.to_wire()
        while owner:
            following = ""
            for line in self.answers.get(owner, ()):
                of, data = line.split()
                if of in (kind, "CNAME"):
                    response.answer.append(dns.rrset.from_text(owner, self.ttl, "IN", of, data))
                    following = data if of == "CNAME" else ""
            owner = following
        return response.to_wire()


@contextlib.contextmanager
def names(answers: Mapping[str, tuple[str, ...]], ttl: int = 0) -> Iterator[Names]:
    """Run a DNS server on 127.0.0.1, with the same port for UDP and TCP."""
    server = Names(answers, ttl)

    class Udp(asyncio.DatagramProtocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast(asyncio.DatagramTransport, transport)  # it is no child of that class

        def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
            server.ports.add(address[1])
            if (response := server.respond(data, over_tcp=False)) is not None:
                stray = bytes((response[0] ^ 0xFF,)) + response[1:]  # another id: to be ignored
                self.transport.sendto(stray, address)
                self.transport.sendto(response, address)

    async def over_tcp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            length = int.from_bytes(await reader.readexactly(2), "big")
            response = server.respond(await reader.readexactly(length), over_tcp=True)
            if response is not None:
                writer.write(len(response).to_bytes(2, "big") + response)
        writer.close()

    @asynccontextmanager
    async def served() -> AsyncIterator[None]:
        tcp = await asyncio.start_server(over_tcp, "127.0.0.1", 0)
        server.port = tcp.sockets[0].getsockname()[1]
        udp, _ = await asyncio.get_running_loop().create_datagram_endpoint(Udp, local_addr=("127.0.0.1", server.port))
        try:
            yield
        finally:
            udp.close()
            tcp.close()

    with _in_thread(served):
        yield server


@contextlib.contextmanager
def _in_thread(served: Callable[[], contextlib.AbstractAsyncContextManager[None]]) -> Iterator[None]:
    """Run a server in a thread for the duration of the context."""
    runs = threading.Event()
    held: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    failure: list[BaseException] = []

    async def serve() -> None:
        try:
            async with served():
                held.append((asyncio.get_running_loop(), asyncio.Event()))
                runs.set()
                await held[0][1].wait()
        except OSError as error:
            failure.append(error)
            runs.set()

    def run() -> None:
        asyncio.run(serve())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert runs.wait(PATIENCE), "the server doesn't start"
    if failure:
        raise failure[0]
    try:
        yield
    finally:
        loop, ends = held[0]
        loop.call_soon_threadsafe(ends.set)
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the server doesn't end"


def closed_port() -> int:
    """Return a port that refuses connections. A socket that does not listen keeps the port until the process exits."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    _bound.append(sock)
    port: int = sock.getsockname()[1]
    return port


_bound: list[socket.socket] = []
