"""Send one DNS query to a server over UDP or TCP, and wait for the response.

Messages are built and parsed with dnslib.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from dataclasses import dataclass
from typing import BinaryIO, Final, Literal

from dnslib import CLASS, EDNS0, QTYPE, DNSError, DNSHeader, DNSQuestion, DNSRecord
from dnslib.label import DNSLabelError

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError

Transport = Literal["UDP", "TCP"]
TIMEOUT: Final = 2.0  # seconds that each try waits for the response
TRIES: Final = 3  # tries over UDP, which may lose datagrams
PAYLOAD: Final = 1232  # bytes of a UDP response that cross every network in one piece (DNS flag day 2020)


@dataclass(frozen=True, slots=True)
class DnsReply:
    """A DNS response with its size in bytes, its transport and the response time in seconds."""

    message: DNSRecord
    size: int
    transport: Transport
    seconds: float


def make_query(name: str, rtype: str = "A", rclass: str = "IN", *, recursion: bool = True) -> DNSRecord:
    """Return a DNS query with a random ID and an EDNS(0) OPT record. Raises ValueError if ``name`` is invalid."""
    try:
        question = DNSQuestion(name, getattr(QTYPE, rtype), getattr(CLASS, rclass))
        query = DNSRecord(DNSHeader(rd=int(recursion)), q=question)
        query.add_ar(EDNS0(udp_len=PAYLOAD))
        query.pack()
    except (DNSError, DNSLabelError, UnicodeError) as error:
        raise ValueError(f"{name!r} is not a valid domain name: {error}") from None
    return query


def ask(
    query: DNSRecord, server: Endpoint, *, tcp: bool = False, timeout: float = TIMEOUT, tries: int = TRIES
) -> DnsReply:
    """Send ``query`` and return the reply. If the UDP response is truncated, repeat the query over TCP.

    Over UDP, the query is sent up to ``tries`` times. Each try waits up to ``timeout`` seconds for a response and
    ignores invalid datagrams. Raises LbdnsError if the server cannot be reached, does not respond in time, or sends an
    invalid DNS message over TCP.
    """
    began = time.monotonic()
    try:
        if not tcp:
            wire = _over_udp(query, server, timeout, tries)
            message = DNSRecord.parse(wire)
            if not message.header.tc:
                return DnsReply(message, len(wire), "UDP", time.monotonic() - began)
        wire = _over_tcp(query.pack(), server, timeout)
        return DnsReply(DNSRecord.parse(wire), len(wire), "TCP", time.monotonic() - began)
    except TimeoutError:
        waited = f"{timeout:g} s" if tcp or tries == 1 else f"{tries} tries of {timeout:g} s each"
        raise LbdnsError(f"{server}: no response to the query after {waited}") from None
    except OSError as error:
        raise LbdnsError(f"{server}: {error.strerror or error}") from None
    except (DNSError, EOFError) as error:
        raise LbdnsError(f"{server}: the reply over TCP is not a valid DNS message: {error}") from None


def _over_udp(query: DNSRecord, server: Endpoint, timeout: float, tries: int) -> bytes:
    """Return the first response to the query.

    Raises TimeoutError after the last try, or OSError after a network error.
    """
    family, address = _address(server)
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.connect(address)
        for _ in range(tries):
            sock.send(query.pack())
            end = time.monotonic() + timeout
            while (left := end - time.monotonic()) > 0:
                sock.settimeout(left)
                with contextlib.suppress(TimeoutError):
                    wire = sock.recv(65_535)
                    if _answers(wire, query):
                        return wire
    raise TimeoutError


def _answers(wire: bytes, query: DNSRecord) -> bool:
    """Return whether a datagram is a response with the query's ID and either the query's question or no question."""
    try:
        message = DNSRecord.parse(wire)
    except (DNSError, struct.error):
        return False
    same = not message.questions or message.questions == query.questions
    return bool(message.header.qr and message.header.id == query.header.id and same)


def _over_tcp(query: bytes, server: Endpoint, timeout: float) -> bytes:
    """Send the query over a new TCP connection (RFC 7766) and return the response. Raises OSError or EOFError."""
    _, address = _address(server)
    with socket.create_connection(address[:2], timeout) as sock, sock.makefile("rb") as stream:
        sock.sendall(struct.pack("!H", len(query)) + query)
        (length,) = struct.unpack("!H", _read(stream, 2))
        return _read(stream, length)


def _read(stream: BinaryIO, length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise EOFError(f"the server closed the connection after {len(data)} of {length} bytes")
    return data


def _address(server: Endpoint) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return the address family and the socket address of a server. Raises OSError if the name cannot be resolved."""
    family, _, _, _, address = socket.getaddrinfo(server.host, server.port, type=socket.SOCK_DGRAM)[0]
    return family, address  # type: ignore[return-value]
