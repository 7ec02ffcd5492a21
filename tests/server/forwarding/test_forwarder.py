"""Tests of forwarding over loopback sockets: success, refused clients, reloads, and invalid upstreams."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import dns.flags
import dns.message
import dns.rcode
import dns.rdata
import pytest

from lbdns.config import ForwardConfig, ServerConfig
from lbdns.server.forwarding import upstreams
from lbdns.server.forwarding.forwarder import check_upstreams
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError
from tests.answering.asking import make_query, read, short
from tests.needs import needs
from tests.server.clients import ask_tcp, ask_udp, tcp_client, udp_socket, until
from tests.server.forwarding.relaying import ALLOW, FARM, OTHER, QUERY, addresses, configured, relaying
from tests.server.forwarding.upstream import ADDRESS, LIE, cut, lie, response, silent, upstream

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
                    message = read(await asyncio.wait_for(loop.sock_recv(sock, 4096), 60))
                    assert (message.rcode(), message.flags & dns.flags.RA) == (dns.rcode.REFUSED, 0)
        async with tcp_client(server.endpoint, "127.0.1.1") as client:
            message = read(await client.ask(QUERY))
            assert (message.rcode(), message.flags & dns.flags.RA) == (dns.rcode.REFUSED, 0)
        assert read(await ask_udp(server.endpoint, make_query("www.example.org"))).rcode() == dns.rcode.REFUSED
        assert (up.asked, up.asked_tcp, server.count("relayed")) == ([], [], 0)


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
            patch.setattr(upstreams, "read_upstream_response", fail)
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
    with pytest.raises(ConfigError, match=r"lbdns.toml: \[forward\] upstream: .* queries would loop forever"):
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
