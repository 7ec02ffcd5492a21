"""Tests of slow, unreachable and failing upstreams: the next upstream is asked, and no client waits long."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

import dns.flags
import dns.message
import dns.rcode
import pytest

from lbdns.server.forwarding import upstreams
from lbdns.server.transport import tcp
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.free_ports import free_ports
from tests.answering.asking import read
from tests.server.clients import ask_udp, until
from tests.server.forwarding.relaying import OTHER, QUERY, addresses, relaying
from tests.server.forwarding.upstream import ADDRESS, cut, failing, good, silent, upstream


@pytest.mark.parametrize("rcode", [dns.rcode.SERVFAIL, dns.rcode.REFUSED, dns.rcode.FORMERR, dns.rcode.NOTIMP])
async def test_the_next_one_may_do_better(rcode: dns.rcode.Rcode) -> None:
    async with upstream(failing(rcode)) as bad, upstream() as up, relaying(bad, up) as server:
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]
        assert (len(bad.asked), len(up.asked)) == (1, 1)


async def test_if_none_does_better_the_first_one_s_word_is_told_at_once() -> None:
    refusing, broken = failing(dns.rcode.REFUSED), failing(dns.rcode.SERVFAIL)
    async with upstream(refusing) as one, upstream(broken) as two, relaying(one, two) as server:
        message = read(await ask_udp(server.endpoint, QUERY))
        assert (message.rcode(), message.flags & dns.flags.RA) == (dns.rcode.REFUSED, dns.flags.RA)
        assert server.count("timeouts") == 0
        assert (len(one.asked), len(two.asked), server.count("failed")) == (1, 1, 1)


async def test_one_that_stays_silent_is_asked_last_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstreams, "TRY", 1.0)
    async with upstream(silent) as dead, upstream() as up, relaying(dead, up) as server:
        began = perf_counter()
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]
        assert perf_counter() - began >= 1.0
        assert (len(dead.asked), server.count("timeouts")) == (1, 1)
        for query in (OTHER, QUERY):
            assert addresses(await ask_udp(server.endpoint, query)) == [ADDRESS]
        assert len(dead.asked) == 1


async def test_one_that_is_back_is_found_out_without_letting_anybody_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstreams, "PROBE_AFTER", 0.0)
    monkeypatch.setattr(upstreams, "TRY", 1.0)
    async with upstream(silent) as first, upstream() as second, relaying(first, second) as server:
        await ask_udp(server.endpoint, QUERY)
        await ask_udp(server.endpoint, OTHER)  # it is still away, and probed beside
        assert server.count("timeouts") == 1, "the answer did not wait for the end of the probe"
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
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]
        assert (server.count("unreachable"), server.count("timeouts")) == (1, 0)


@pytest.mark.parametrize("listed", [0, 1, 2])
@pytest.mark.usefixtures("quick")
async def test_servfail_if_nobody_answers(listed: int) -> None:
    async with upstream(silent) as one, upstream(silent) as two, relaying(*(one, two)[:listed]) as server:
        began = perf_counter()
        message = read(await ask_udp(server.endpoint, QUERY))
        assert message.rcode() == dns.rcode.SERVFAIL
        assert perf_counter() - began < 30.0
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
