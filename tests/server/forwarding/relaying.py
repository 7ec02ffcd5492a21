"""A forwarding server on a free port (UDP and TCP), and the queries that tests send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import Final

import dns.rcode

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.relayed_query import RelayedQuery
from lbdns.answering.responder import DeferredAnswer, Responder
from lbdns.config import ForwardConfig
from lbdns.counting.response_times import ResponseTimes
from lbdns.server.forwarding.forwarder import Forwarder
from lbdns.server.query_log.query_sampler import Reply
from lbdns.server.transport.tcp import TcpServer
from lbdns.server.transport.udp import UdpServer
from lbdns.sockets.dns_sockets import open_tcp, open_udp
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.free_ports import free_ports
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
    """A forwarding server on a free port."""

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
    responder = Responder(AnswerTable(replace(FARM, config=replace(FARM.config, forward=config))))
    relay = Forwarder(config, responder)

    def run(errand: DeferredAnswer, reply: Reply) -> None:
        assert isinstance(errand, RelayedQuery)
        relay.relay(errand, reply)

    loop = asyncio.get_running_loop()
    udp = UdpServer(open_udp(Endpoint(host, free_ports(1)[0])), responder, ResponseTimes())
    over_tcp = TcpServer(open_tcp(udp.endpoint), responder, ResponseTimes())
    udp.run_deferred = over_tcp.run_deferred = run
    udp.start(loop)
    await over_tcp.start(loop)
    try:
        yield Relaying(udp.endpoint, relay, responder, over_tcp)
    finally:
        relay.stop()
        udp.stop(loop)
        await over_tcp.stop()


def addresses(wire: bytes) -> list[str]:
    message = read(wire)
    assert message.rcode() == dns.rcode.NOERROR
    return [rdata for _, _, rdata in short(message.answer)]
