"""Tests of the limits on queries being forwarded at the same time: per network, in total, and in forwarding loops."""

from __future__ import annotations

import asyncio
import socket

import dns.rcode
import pytest

from lbdns.server.forwarding import forwarder
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.free_ports import free_ports
from tests.answering.asking import make_query, read
from tests.server.clients import ask_udp, udp_socket, until, with_ids
from tests.server.forwarding.relaying import OTHER, OURS, QUERY, addresses, relaying
from tests.server.forwarding.upstream import ADDRESS, upstream


async def test_one_network_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "MAX_PER_NETWORK", 3)
    async with upstream() as up, relaying(up) as server:
        up.held.clear()
        loop = asyncio.get_running_loop()
        with udp_socket(server.endpoint) as sock:
            for query in with_ids(QUERY, range(5)):
                sock.send(query)
            for ident in (3, 4):
                message = read(await asyncio.wait_for(loop.sock_recv(sock, 512), 60))
                assert (message.id, message.rcode()) == (ident, dns.rcode.REFUSED)
            assert (server.count("limited"), server.count("relayed"), len(up.asked)) == (2, 3, 1)
            # Our own names have no such limit
            assert addresses(await ask_udp(server.endpoint, OURS)) == ["127.0.0.16"]
            up.held.set()
            got = {(await asyncio.wait_for(loop.sock_recv(sock, 512), 60))[:2] for _ in range(3)}
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
    assert len({forwarder._network(host) for host in hosts}) == networks


async def test_all_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "MAX_WAITING", 2)
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
            query = await asyncio.wait_for(loop.sock_recv(sock, 512), 60)
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
