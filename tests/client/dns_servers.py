"""A DNS server for tests of clients, with threads that send scripted datagrams and TCP replies."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from lbdns_shared.endpoint import Endpoint
from lbdns_tools.free_ports import free_port

#: From the bytes of a query to the datagrams sent back for it.
UdpScript = Callable[[bytes], Sequence[bytes]]
#: From the bytes of a query to all the bytes sent back over TCP.
TcpScript = Callable[[bytes], bytes]


@dataclass
class ScriptedServer:
    endpoint: Endpoint
    queries: list[bytes] = field(default_factory=list)  # in the order of their arrival, over UDP and TCP


@contextmanager
def scripted_server(udp: UdpScript, tcp: TcpScript | None = None) -> Iterator[ScriptedServer]:
    """Run a server on a free loopback port; the server closes TCP connections unless ``tcp`` is given."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, socket.socket() as listener:
        address = ("127.0.0.1", free_port())  # free over both transports, which a port from the kernel need not be
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        datagrams.bind(address)
        listener.listen()
        server = ScriptedServer(Endpoint(*datagrams.getsockname()))

        threads = [
            threading.Thread(target=_serve_udp, args=(datagrams, server, udp)),
            threading.Thread(target=_serve_tcp, args=(listener, server, tcp)),
        ]
        for thread in threads:
            thread.start()
        try:
            yield server
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
                end.sendto(b"", datagrams.getsockname())
            with contextlib.suppress(OSError):
                socket.create_connection(listener.getsockname()).close()
            for thread in threads:
                thread.join(60)


def _serve_udp(sock: socket.socket, server: ScriptedServer, script: UdpScript) -> None:
    while True:
        query, client = sock.recvfrom(65_535)
        if not query:  # sent by the end of the test
            return
        server.queries.append(query)
        for reply in script(query):
            sock.sendto(reply, client)


def _serve_tcp(listener: socket.socket, server: ScriptedServer, script: TcpScript | None) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            head = connection.recv(2)
            if not head:  # closed by the end of the test
                return
            query = connection.recv(struct.unpack("!H", head)[0])
            server.queries.append(query)
            if script:
                connection.sendall(script(query))


def framed(message: bytes) -> bytes:
    """Return a message as sent over TCP, with its length as a prefix."""
    return struct.pack("!H", len(message)) + message
