"""Forwarding over real sockets on the loopback: upstreams that are slow, dead, failing or lying."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_network
from itertools import pairwise
from time import perf_counter
from typing import Final

import dns.flags
import dns.message
import dns.rcode
import dns.rdata
import pytest

from lbdns.answering.errand import Errand, Relay
from lbdns.answering.respond import Responder
from lbdns.answering.table import Table
from lbdns.config import ForwardConfig, ServerConfig
from lbdns.endpoint import Endpoint
from lbdns.errors import ConfigError
from lbdns.server.forwarding import forward, upstreams
from lbdns.server.forwarding.forward import Forwarder, check_upstreams
from lbdns.server.net import tcp
from lbdns.server.net.durations import Durations
from lbdns.server.net.listen import open_tcp, open_udp
from lbdns.server.net.tcp import TcpServer
from lbdns.server.net.udp import UdpServer
from lbdns_tools.ports import free_ports
from tests.answering.asking import make_query, read, short
from tests.answering.farms import hobbit
from tests.needs import needs
from tests.server.clients import ask_tcp, ask_udp, tcp_client, udp_socket, until, with_ids
from tests.server.forwarding.upstream import ADDRESS, FakeUpstream, cut, failing, good, response, silent, upstream

FARM: Final = hobbit()
QUERY: Final = make_query("www.example.org", recurse=True)
OTHER: Final = make_query("other.example.org", recurse=True)
OURS: Final = make_query("bilbo.hobbit", recurse=True)
LIE: Final = "203.0.113.66"
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


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time-outs that a test can wait for."""
    monkeypatch.setattr(upstreams, "TRY", 0.25)
    monkeypatch.setattr(upstreams, "TOTAL", 1.2)


# What goes well


async def test_over_udp_and_tcp() -> None:
    async with upstream() as up, relaying(up) as server:
        for ask in (ask_udp, ask_tcp):
            message = read(await ask(server.endpoint, QUERY))
            assert short(message.answer) == [("www.example.org.", "A", ADDRESS)]
            assert message.flags == dns.flags.QR | dns.flags.RD | dns.flags.RA
            assert message.id == 0x1234
        assert (len(up.asked), len(up.asked_tcp)) == (2, 0)
        assert (server.count("relayed"), server.count("answered"), server.count("failed")) == (2, 2, 0)
        assert server.responder.table.queries() == {("", 1, "udp", 0): 1, ("", 1, "tcp", 0): 1}


async def test_an_alias_of_ours_that_leads_out() -> None:
    async with upstream() as up, relaying(up) as server:
        message = read(await ask_udp(server.endpoint, make_query("out.hobbit", recurse=True)))
        assert short(message.answer) == [
            ("out.hobbit.", "CNAME", "www.example.org."),
            ("www.example.org.", "A", ADDRESS),
        ]
        assert up.asked[0].question[0].name.to_text().lower() == "www.example.org."


async def test_on_a_wildcard_socket_the_answer_leaves_from_the_address_that_was_asked() -> None:
    async with upstream() as up, relaying(up, host="0.0.0.0") as server:
        # The client's socket is connected: it hears nobody else
        assert addresses(await ask_udp(Endpoint("127.0.0.1", server.endpoint.port), QUERY)) == [ADDRESS]


@needs(ipv6=True)
async def test_ipv6_upstream_and_client() -> None:
    async with upstream(host="::1") as up, relaying(up, host="::1") as server:
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]


async def test_each_query_has_its_own_port_id_and_letter_case() -> None:
    count = 40
    async with upstream() as up, relaying(up) as server:
        names = [f"host-with-a-long-name-{number}.example.org" for number in range(count)]
        await asyncio.gather(*(ask_udp(server.endpoint, make_query(name, recurse=True)) for name in names))
        ports = [port for _, port in up.sources]
        assert len(set(ports)) == count
        steps = {two - one for one, two in pairwise(ports)}
        assert len(steps) > count // 2, "not counted up"
        assert len({query.id for query in up.asked}) > count - 3
        cases = {query.question[0].name.to_text().partition("-name-")[0] for query in up.asked}
        assert len(cases) > count - 3


async def test_who_asks_the_same_waits_for_the_same_answer() -> None:
    async with upstream() as up, relaying(up) as server:
        up.held.clear()
        same = [
            QUERY,
            make_query("WWW.example.ORG", recurse=True, ident=7),
            make_query("www.example.org", recurse=True, payload=4096),
        ]
        asking = [asyncio.create_task(ask_udp(server.endpoint, query)) for query in (*same, OTHER)]
        await until(lambda: server.count("relayed") == 4)
        up.held.set()
        answers = await asyncio.gather(*asking)
        assert len(up.asked) == 2
        assert [addresses(answer) for answer in answers] == [[ADDRESS]] * 4
        for query, answer in zip((*same, OTHER), answers, strict=True):
            assert answer[:2] == query[:2]
            assert answer[12:29] == query[12:29], "each in its own letter case"


async def test_large_answers() -> None:
    def large(query: dns.message.Message) -> Iterable[bytes]:
        made = response(query)
        for number in range(100):
            made.answer[0].add(dns.rdata.from_text("IN", "A", f"192.0.2.{number}"))
        return [made.to_wire(max_size=65535)]

    async with upstream(udp=cut, tcp=large) as up, relaying(up) as server:
        assert read(await ask_udp(server.endpoint, QUERY)).flags & dns.flags.TC
        assert len(addresses(await ask_tcp(server.endpoint, QUERY))) == 100
        assert (len(up.asked), len(up.asked_tcp), server.count("over_tcp")) == (2, 2, 2)


# Never open


@pytest.mark.parametrize("transport", [ask_udp, ask_tcp])
async def test_others_are_refused_and_no_upstream_hears_of_them(transport: object) -> None:
    async with upstream() as up, relaying(up) as server:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.bind(("127.0.1.1", 0))
            sock.connect((server.endpoint.host, server.endpoint.port))
            for name in ("www.example.org", ".", "org"):
                for rtype in ("A", "ANY", "AXFR", "NS"):
                    await loop.sock_sendall(sock, make_query(name, rtype, recurse=True, payload=4096))
                    message = read(await asyncio.wait_for(loop.sock_recv(sock, 4096), 5))
                    assert (message.rcode(), message.flags & dns.flags.RA) == (dns.rcode.REFUSED, 0)
        async with tcp_client(server.endpoint, "127.0.1.1") as client:
            message = read(await client.ask(QUERY))
            assert (message.rcode(), message.flags & dns.flags.RA) == (dns.rcode.REFUSED, 0)
        assert read(await ask_udp(server.endpoint, make_query("www.example.org"))).rcode() == dns.rcode.REFUSED
        assert (up.asked, up.asked_tcp, server.count("relayed")) == ([], [], 0)


# Upstreams that fail


@pytest.mark.parametrize("rcode", [dns.rcode.SERVFAIL, dns.rcode.REFUSED, dns.rcode.FORMERR, dns.rcode.NOTIMP])
async def test_the_next_one_may_do_better(rcode: dns.rcode.Rcode) -> None:
    async with upstream(failing(rcode)) as bad, upstream() as up, relaying(bad, up) as server:
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]
        assert (len(bad.asked), len(up.asked)) == (1, 1)


async def test_if_none_does_better_the_first_one_s_word_is_told_at_once() -> None:
    refusing, broken = failing(dns.rcode.REFUSED), failing(dns.rcode.SERVFAIL)
    async with upstream(refusing) as one, upstream(broken) as two, relaying(one, two) as server:
        began = perf_counter()
        message = read(await ask_udp(server.endpoint, QUERY))
        assert (message.rcode(), message.flags & dns.flags.RA) == (dns.rcode.REFUSED, dns.flags.RA)
        assert perf_counter() - began < 1.0
        assert (len(one.asked), len(two.asked), server.count("failed")) == (1, 1, 1)


@pytest.mark.usefixtures("quick")
async def test_one_that_stays_silent_is_asked_last_from_then_on() -> None:
    async with upstream(silent) as dead, upstream() as up, relaying(dead, up) as server:
        began = perf_counter()
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]
        assert 0.25 <= perf_counter() - began < 1.2
        assert (len(dead.asked), server.count("timeouts")) == (1, 1)
        for query in (OTHER, QUERY):
            assert addresses(await ask_udp(server.endpoint, query)) == [ADDRESS]
        assert len(dead.asked) == 1


async def test_one_that_is_back_is_found_out_without_letting_anybody_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstreams, "PROBE_AFTER", 0.0)
    monkeypatch.setattr(upstreams, "TRY", 0.6)
    async with upstream(silent) as first, upstream() as second, relaying(first, second) as server:
        await ask_udp(server.endpoint, QUERY)
        began = perf_counter()
        await ask_udp(server.endpoint, OTHER)  # it is still away, and probed beside
        assert perf_counter() - began < 0.6
        await until(lambda: len(first.asked) == 2)
        await until(lambda: server.count("timeouts") == 2)
        first.udp = good
        await ask_udp(server.endpoint, OTHER)
        upstream_states = server.forwarder._upstreams._upstreams
        await until(lambda: all(state.probe_at is None for state in upstream_states))
        before = len(second.asked)
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]
        assert len(second.asked) == before, "the first is first again"


async def test_one_that_is_not_there() -> None:
    gone = Endpoint("127.0.0.1", free_ports(1)[0])
    async with upstream() as up, relaying(gone, up) as server:
        began = perf_counter()
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]
        assert perf_counter() - began < 1.0, "the kernel says so at once"
        assert (server.count("unreachable"), server.count("timeouts")) == (1, 0)


@pytest.mark.parametrize("listed", [0, 1, 2])
@pytest.mark.usefixtures("quick")
async def test_servfail_if_nobody_answers(listed: int) -> None:
    async with upstream(silent) as one, upstream(silent) as two, relaying(*(one, two)[:listed]) as server:
        began = perf_counter()
        message = read(await ask_udp(server.endpoint, QUERY))
        assert message.rcode() == dns.rcode.SERVFAIL
        assert perf_counter() - began < 5.0
        assert server.count("failed") == 1
        if listed:
            assert len(one.asked) >= 2, "asked again while there is time"


@pytest.mark.usefixtures("quick")
async def test_an_answer_that_is_lost_once() -> None:
    def second_time(query: dns.message.Message) -> Iterable[bytes]:
        return good(query) if len(up.asked) > 1 else []

    async with upstream(second_time) as up, relaying(up) as server:
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("tcp_behaviour", [silent, cut, lambda query: [b"\0" * 40]], ids=["closes", "cut", "garbage"])
async def test_cut_over_udp_and_bad_over_tcp(tcp_behaviour: object) -> None:
    assert callable(tcp_behaviour)
    async with upstream(cut, tcp_behaviour) as bad, upstream() as up, relaying(bad, up) as server:
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]
        assert len(bad.asked_tcp) == 1


async def test_the_times_fit_each_other() -> None:
    assert upstreams.TOTAL <= 5.0, "what was asked for"
    assert upstreams.TOTAL < tcp.IDLE, "no connection is idle while a response is owed"
    assert 2 * upstreams.TRY < upstreams.TOTAL


# Upstreams that lie, and those who pretend to be one


def lie(query: dns.message.Message) -> dns.message.Message:
    return response(query, LIE)


def wrong_id(query: dns.message.Message) -> bytes:
    message = lie(query)
    message.id ^= 1
    return message.to_wire()


def wrong_question(query: dns.message.Message) -> bytes:
    other = dns.message.make_query("evil.example.org", "A", id=query.id)
    return lie(other).to_wire()


def wrong_type(query: dns.message.Message) -> bytes:
    return lie(dns.message.make_query(query.question[0].name, "AAAA", id=query.id)).to_wire()


def no_response(query: dns.message.Message) -> bytes:
    message = lie(query)
    message.flags &= ~dns.flags.QR
    return message.to_wire()


def torn(query: dns.message.Message) -> bytes:
    return lie(query).to_wire()[:-1]


LIES = [wrong_id, wrong_question, wrong_type, no_response, torn]


@pytest.mark.parametrize("wrong", LIES)
async def test_what_does_not_fit_is_ignored(wrong: object) -> None:
    assert callable(wrong)
    async with upstream(lambda query: [wrong(query), b"x", *good(query)]) as up, relaying(up) as server:
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]
        assert (server.count("ignored"), len(up.asked), len(up.asked_tcp)) == (2, 1, 0)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("wrong", LIES)
async def test_nothing_but_lies_is_nothing(wrong: object) -> None:
    assert callable(wrong)
    async with upstream(lambda query: [wrong(query)]) as bad, upstream() as up, relaying(bad, up) as server:
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]


async def test_the_letter_case_has_to_be_repeated() -> None:
    def lowered(query: dns.message.Message) -> Iterable[bytes]:
        wire = lie(query).to_wire()
        end = wire.index(0, 12)
        return [wire[:12] + wire[12:end].lower() + wire[end:]]

    async with upstream(lowered) as up, relaying(up) as server:
        name = "a.name.with.letters.enough.that.chance.will.not.make.them.all.small.example.org"
        # Over TCP, where nobody can guess, the case doesn't matter
        assert addresses(await ask_udp(server.endpoint, make_query(name, recurse=True))) == [ADDRESS]
        assert len(up.asked_tcp) == 1


async def test_a_rain_of_guesses_is_answered_with_tcp() -> None:
    guesses = 3 * upstreams.MAX_WRONG

    async with upstream(lambda query: [wrong_id(query)] * guesses) as up, relaying(up) as server:
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]
        assert len(up.asked_tcp) == 1
        assert server.count("ignored") == upstreams.MAX_WRONG


@pytest.mark.parametrize("spoofer", [("127.0.0.1", None), ("127.0.0.66", "same port")])
async def test_who_is_not_the_upstream_is_not_heard(spoofer: tuple[str, str | None]) -> None:
    host, port = spoofer
    async with upstream() as up, relaying(up) as server:
        up.held.clear()
        asking = asyncio.create_task(ask_udp(server.endpoint, QUERY))
        await until(lambda: up.asked)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((host, up.endpoint.port if port else 0))
            # Everything right: id, question, letter case, and where to
            sock.sendto(lie(up.asked[0]).to_wire(), up.sources[0])
        up.held.set()
        assert addresses(await asking) == [ADDRESS]
        assert server.count("ignored") == 0, "the kernel didn't even hand it over"


# Limits


async def test_one_network_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "MAX_PER_NETWORK", 3)
    async with upstream() as up, relaying(up) as server:
        up.held.clear()
        loop = asyncio.get_running_loop()
        with udp_socket(server.endpoint) as sock:
            for query in with_ids(QUERY, range(5)):
                sock.send(query)
            for ident in (3, 4):
                message = read(await asyncio.wait_for(loop.sock_recv(sock, 512), 5))
                assert (message.id, message.rcode()) == (ident, dns.rcode.REFUSED)
            assert (server.count("limited"), server.count("relayed"), len(up.asked)) == (2, 3, 1)
            # Our own names have no such limit
            assert addresses(await ask_udp(server.endpoint, OURS)) == ["127.0.0.16"]
            up.held.set()
            got = {(await asyncio.wait_for(loop.sock_recv(sock, 512), 5))[:2] for _ in range(3)}
        assert got == {bytes((0, number)) for number in range(3)}
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS], "there is room again"
        assert not server.forwarder._per_network


@pytest.mark.parametrize(
    ("hosts", "networks"),
    [
        (("10.0.0.1", "10.0.0.255"), 1),
        (("10.0.0.1", "10.0.1.1"), 2),
        (("fd00::1", "fd00:0:0:ff::1"), 1),
        (("fd00::1", "fd00:0:0:100::1"), 2),
        (("::1", "0.0.0.1"), 2),
        (("fe80::1%lo", "fe80::1"), 1),
    ],
)
def test_networks(hosts: tuple[str, ...], networks: int) -> None:
    assert len({forward._network(host) for host in hosts}) == networks


async def test_all_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "MAX_WAITING", 2)
    async with upstream() as up, relaying(up) as server:
        up.held.clear()
        asking = [asyncio.create_task(ask_udp(server.endpoint, query)) for query in (QUERY, OTHER)]
        await until(lambda: server.count("relayed") == 2)
        third = make_query("third.example.org", recurse=True)
        assert read(await ask_udp(server.endpoint, third)).rcode() == dns.rcode.REFUSED
        up.held.set()
        for answer in await asyncio.gather(*asking):
            assert addresses(answer) == [ADDRESS]
        assert addresses(await ask_udp(server.endpoint, third)) == [ADDRESS]


@pytest.mark.usefixtures("quick")
async def test_a_loop_goes_round_once() -> None:
    port = free_ports(1)[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", port))
        sock.setblocking(False)
        async with relaying(Endpoint("127.0.0.1", port)) as server:
            loop = asyncio.get_running_loop()
            asking = asyncio.create_task(ask_udp(server.endpoint, QUERY))
            # As a network that translates addresses would: our query comes back to us as a client's
            query = await asyncio.wait_for(loop.sock_recv(sock, 512), 5)
            sock.sendto(query, (server.endpoint.host, server.endpoint.port))
            assert read(await asking).rcode() == dns.rcode.SERVFAIL
            assert server.count("relayed") == 2
            more = 0
            try:
                while True:
                    more += sock.recv(512)[:2] != query[:2]
            except BlockingIOError:
                pass
            assert more <= 4, "its own tries, and no more"


# Connections


async def test_over_tcp_answers_come_as_they_are_ready() -> None:
    async with upstream() as up, relaying(up) as server, tcp_client(server.endpoint) as client:
        up.held.clear()
        queries = [*with_ids(QUERY, [1]), *with_ids(OURS, [2]), *with_ids(OTHER, [3])]
        await client.send(*queries)
        assert (await client.receive())[:2] == b"\0\2"
        await until(lambda: len(up.asked) == 2)
        up.held.set()
        assert {(await client.receive())[:2] for _ in range(2)} == {b"\0\1", b"\0\3"}
        assert addresses(await client.ask(OURS)) == ["127.0.0.16"]


async def test_half_closed_a_connection_gets_what_it_is_owed() -> None:
    async with upstream() as up, relaying(up) as server, tcp_client(server.endpoint) as client:
        up.held.clear()
        await client.send(*with_ids(QUERY, [1]), *with_ids(OURS, [2]), *with_ids(OTHER, [3]))
        client.writer.write_eof()
        assert (await client.receive())[:2] == b"\0\2"
        await until(lambda: len(up.asked) == 2)
        up.held.set()
        assert {(await client.receive())[:2] for _ in range(2)} == {b"\0\1", b"\0\3"}
        assert await client.closed() == b""
        await until(lambda: not server.tcp.connections)


async def test_half_closed_in_the_middle_of_many() -> None:
    count = 3 * tcp.AT_ONCE
    async with upstream() as up, relaying(up) as server, tcp_client(server.endpoint) as client:
        up.held.clear()
        await client.send(*with_ids(QUERY, [999]), *with_ids(OURS, range(count)))
        client.writer.write_eof()
        got = [await client.receive() for _ in range(count)]
        assert [int.from_bytes(answer[:2], "big") for answer in got] == list(range(count))
        up.held.set()
        assert addresses(await client.receive()) == [ADDRESS]
        assert await client.closed() == b""


async def test_over_the_limit_on_a_half_closed_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "MAX_WAITING", 0)
    async with upstream() as up, relaying(up) as server, tcp_client(server.endpoint) as client:
        await client.send(*with_ids(QUERY, [1]), *with_ids(OURS, [2]))
        client.writer.write_eof()
        assert {(await client.receive())[:2] for _ in range(2)} == {b"\0\1", b"\0\2"}
        assert await client.closed() == b""


async def test_an_answer_gives_the_connection_time_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "IDLE", 0.5)
    monkeypatch.setattr(tcp, "SWEEP", 0.02)
    async with upstream() as up, relaying(up) as server, tcp_client(server.endpoint) as client:
        up.held.clear()
        await client.send(QUERY)
        (connection,) = await _connections(server)
        asked_at = connection.deadline
        await until(lambda: up.asked)
        up.held.set()
        await client.receive()
        assert connection.deadline > asked_at
        assert await client.closed() == b"", "and then it is idle"


async def _connections(server: Relaying) -> list[tcp._Connection]:
    await until(lambda: server.count("relayed"))
    return list(server.tcp.connections)


async def test_a_client_that_left() -> None:
    async with upstream() as up, relaying(up) as server:
        up.held.clear()
        async with tcp_client(server.endpoint) as client:
            await client.send(QUERY)
            await until(lambda: up.asked)
        up.held.set()
        await until(lambda: server.count("answered") == 1)
        await until(lambda: not server.tcp.connections)
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]


# Reload and stop


async def test_other_upstreams_after_a_reload_while_the_old_ones_still_answer() -> None:
    async with upstream() as old, upstream(lambda query: [lie(query).to_wire()]) as new, relaying(old) as server:
        old.held.clear()
        asking = asyncio.create_task(ask_udp(server.endpoint, QUERY))
        await until(lambda: old.asked)
        server.forwarder.reconfigure(configured(new))
        assert addresses(await ask_udp(server.endpoint, OTHER)) == [LIE]
        old.held.set()
        assert addresses(await asking) == [ADDRESS]


@pytest.mark.usefixtures("quick")
async def test_a_reload_without_a_change_forgets_nothing() -> None:
    async with upstream(silent) as dead, upstream() as up, relaying(dead, up) as server:
        await ask_udp(server.endpoint, QUERY)
        server.forwarder.reconfigure(configured(dead, up))
        await ask_udp(server.endpoint, QUERY)
        assert len(dead.asked) == 1


async def test_stopping_asks_nobody_any_more() -> None:
    async with upstream() as up:
        up.held.clear()
        async with relaying(up) as server:
            with udp_socket(server.endpoint) as sock:
                sock.send(QUERY)
                await until(lambda: up.asked)
                server.forwarder.stop()
                await until(lambda: not server.forwarder._tasks)
                assert not server.forwarder._waiting


async def test_a_mistake_of_ours_costs_its_query(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with upstream() as up, relaying(up) as server:

        def fail(*_: object) -> None:
            raise RuntimeError("a mistake of ours")

        with monkeypatch.context() as patch:
            patch.setattr(upstreams, "hear", fail)
            assert read(await ask_udp(server.endpoint, QUERY)).rcode() == dns.rcode.SERVFAIL
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1


# Before it starts


def _with(listen: str, upstream_host: str) -> None:
    server = ServerConfig(listen=(Endpoint(listen, 5300),))
    forwards = ForwardConfig((Endpoint(upstream_host, 5300),), ALLOW)
    check_upstreams(replace(FARM.config, server=server, forward=forwards))


@pytest.mark.parametrize(("listen", "host"), [("0.0.0.0", "127.0.0.9"), ("::", "::1"), ("127.0.0.9", "127.0.0.9")])
def test_an_upstream_that_is_this_server(listen: str, host: str) -> None:
    with pytest.raises(ConfigError, match=r"lbdns.toml: \[forward\] upstream: .* it would ask itself for ever"):
        _with(listen, host)


def test_an_upstream_at_an_address_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"eth0": [_Address("192.0.2.7"), _Address("fe80::7%eth0")]})
    with pytest.raises(ConfigError, match=r"192\.0\.2\.7:5300"):
        _with("0.0.0.0", "192.0.2.7")
    _with("0.0.0.0", "192.0.2.8")
    _with("192.0.2.6", "192.0.2.7")


@dataclass
class _Address:
    address: str
