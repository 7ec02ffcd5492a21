"""A server that forwards, on UDP and TCP of a free port, and what its tests ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import Final

import dns.rcode

from lbdns.answering.errand import Errand, Relay
from lbdns.answering.respond import Responder
from lbdns.answering.table import Table
from lbdns.config import ForwardConfig
from lbdns.endpoint import Endpoint
from lbdns.server.forwarding import forward
from lbdns.server.forwarding.forward import Forwarder
from lbdns.server.net.durations import Durations
from lbdns.server.net.listen import open_tcp, open_udp
from lbdns.server.net.tcp import TcpServer
from lbdns.server.net.udp import UdpServer
from lbdns_tools.ports import free_ports
from tests.answering.asking import make_query, read, short
from tests.answering.farms import hobbit
from tests.server.forwarding.upstream import FakeUpstream

FARM: Final = hobbit()
QUERY: Final = make_query("www.example.org", recurse=True)
OTHER: Final = make_query("other.example.org", recurse=True)
OURS: Final = make_query("bilbo.hobbit", recurse=True)
ALLOW: Final = (ip_network("127.0.0.0/24"), ip_network("::1/128"))


@dataclass
class Relaying:
    """A server on a free port that forwards."""

    endpoint: Endpoint
    forwarder: Forwarder
    responder: Responder
    tcp: TcpServer

    def count(self, name: str) -> int:
        return self.forwarder.counters()[f"forward_{name}"]


def configured(*asked: FakeUpstream | Endpoint) -> ForwardConfig:
    return ForwardConfig(tuple(one if isinstance(one, Endpoint) else one.endpoint for one in asked), ALLOW)


@asynccontextmanager
async def relaying(*asked: FakeUpstream | Endpoint, host: str = "127.0.0.1") -> AsyncIterator[Relaying]:
    config = configured(*asked)
    responder = Responder(Table(replace(FARM, config=replace(FARM.config, forward=config))))
    forwarder = Forwarder(config, responder)

    def run(errand: Errand, reply: forward.Reply) -> None:
        assert isinstance(errand, Relay)
        forwarder.relay(errand, reply)

    loop = asyncio.get_running_loop()
    udp = UdpServer(open_udp(Endpoint(host, free_ports(1)[0])), responder, Durations())
    over_tcp = TcpServer(open_tcp(udp.endpoint), responder, Durations())
    udp.run_errand = over_tcp.run_errand = run
    udp.start(loop)
    await over_tcp.start(loop)
    try:
        yield Relaying(udp.endpoint, forwarder, responder, over_tcp)
    finally:
        forwarder.stop()
        udp.stop(loop)
        await over_tcp.stop()


def addresses(wire: bytes) -> list[str]:
    message = read(wire)
    assert message.rcode() == dns.rcode.NOERROR
    return [rdata for _, _, rdata in short(message.answer)]
