"""Tests of the query log with sockets: sampling, cost, reloads, and answers from upstreams."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any

import dns.edns
import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.plane import Plane
from lbdns.answering.relayed_query import RelayedQuery
from lbdns.answering.responder import DeferredAnswer, Responder
from lbdns.config import ForwardConfig
from lbdns.config.value_readers import parse_network
from lbdns.counting.response_times import ResponseTimes
from lbdns.model.farm import Farm
from lbdns.server.query_log.query_sampler import Reply
from lbdns.server.transport.listeners import Listeners
from lbdns.sockets.binding import bound_endpoint
from lbdns.sockets.dns_sockets import open_pair
from lbdns_shared.endpoint import Endpoint
from tests.answering.asking import make_query, read
from tests.answering.farms import hobbit
from tests.planes import PLANES
from tests.server.clients import PATIENCE, ask_tcp, ask_udp, udp_socket, until, with_ids
from tests.server.query_log.query_samples import QUERY, logging_to


@pytest.fixture(params=PLANES)
def plane(request: pytest.FixtureRequest) -> Plane:
    found: Plane = request.param
    return found


class Answering:
    """A UDP and TCP socket pair that answers for a farm, and the lines in its query log."""

    def __init__(self, farm: Farm, plane: Plane, file: Path) -> None:
        self.file = file
        self.responder = Responder(AnswerTable(farm, plane))
        self.listeners = Listeners(self.responder, ResponseTimes(), self._run)
        udp, tcp = open_pair(Endpoint("127.0.0.1", 0))
        self.endpoint = bound_endpoint(udp)
        self.sockets = {1: udp, 2: tcp}
        self.relays: list[tuple[DeferredAnswer, Reply]] = []

    def _run(self, errand: DeferredAnswer, reply: Reply) -> None:
        self.relays.append((errand, reply))

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    async def logged(self, count: int) -> list[dict[str, Any]]:
        await until(lambda: len(self.lines()) >= count)
        return self.lines()


@asynccontextmanager
async def answering(farm: Farm, plane: Plane, file: Path, sample: float = 1.0) -> AsyncIterator[Answering]:
    """Run a server that logs a fraction ``sample`` of all queries. 0 turns the query log off."""
    farm = logging_to(farm, file if sample else None, sample or 1.0)
    there = Answering(farm, plane, file)
    there.listeners.log_queries(farm)
    await there.listeners.take_up(there.sockets)
    try:
        yield there
    finally:
        await there.listeners.close()


async def test_queries_over_both_transports(plane: Plane, tmp_path: Path) -> None:
    async with answering(hobbit(), plane, tmp_path / "queries.log") as there:
        before = time()
        responses = [await ask_udp(there.endpoint, query) for query in with_ids(QUERY, range(5))]
        responses.append(await ask_tcp(there.endpoint, QUERY))
        # The lines of the native plane's fast path are written a moment later than others
        lines = sorted(await there.logged(6), key=lambda line: float(line["time"]))
        assert [line["bytes"] for line in lines] == [len(response) for response in responses]
        assert [line["transport"] for line in lines] == ["udp"] * 5 + ["tcp"]
        members = [read(response).answer[0][0].target.to_text().removesuffix(".hobbit.") for response in responses]
        assert [line["member"] for line in lines] == members
        assert {line["client"] for line in lines} == {"127.0.0.1"}
        assert all(line["port"] and line["pid"] == os.getpid() and 0 < line["us"] < 60e6 for line in lines)
        assert all(before - 1 < line["time"] < time() + 1 for line in lines)
        assert stat.S_IMODE(there.file.stat().st_mode) & 0o137 == 0, "not for everybody"


async def test_responses_are_the_same_with_the_log_and_without(plane: Plane, tmp_path: Path) -> None:
    queries = [
        *with_ids(QUERY, range(20)),
        make_query("best.hobbit", "AAAA", payload=1232),
        make_query("best.hobbit", options=[dns.edns.CookieOption(b"12345678", b"")], payload=1232),
        make_query("huge.hobbit", "TXT"),
        make_query("nowhere.hobbit"),
        QUERY + b"x",
    ]
    found = []
    for sample in (0.0, 0.5, 1.0):
        async with answering(hobbit(), plane, tmp_path / f"{sample}.log", sample) as there:
            with udp_socket(there.endpoint) as sock:  # one client, so that all see the same
                loop, responses = asyncio.get_running_loop(), []
                for query in queries:
                    await loop.sock_sendall(sock, query)
                    responses.append(await asyncio.wait_for(loop.sock_recv(sock, 4096), PATIENCE))
                found.append(responses)
        assert len(there.lines()) in {0.0: [0], 0.5: range(len(queries) + 1), 1.0: [len(queries)]}[sample]
    assert found[0] == found[1] == found[2]


async def test_a_burst_is_sampled_evenly(plane: Plane, tmp_path: Path) -> None:
    async with answering(hobbit(), plane, tmp_path / "queries.log", 0.1) as there:
        count, loop = 4000, asyncio.get_running_loop()
        with udp_socket(there.endpoint) as sock:
            for at in range(0, count, 100):
                for query in with_ids(QUERY, range(at, at + 100)):
                    sock.send(query)
                for _ in range(100):
                    await asyncio.wait_for(loop.sock_recv(sock, 512), PATIENCE)
    lines = there.lines()
    assert 280 < len(lines) < 520, "six standard deviations from 400"
    assert min(Counter(line["member"] for line in lines).values()) > 70


async def test_off_costs_no_thread_and_no_file(plane: Plane, tmp_path: Path) -> None:
    async with answering(hobbit(), plane, tmp_path / "queries.log", 0.0) as there:
        await ask_udp(there.endpoint, QUERY)
        assert there.listeners._query_log._writer is None
        (udp, tcp) = there.listeners._open.values()
        assert udp.run_deferred == tcp.run_deferred == there._run
        assert there.listeners.counters() == Counter(tcp_accepted=0)
    assert not there.file.exists()


async def test_a_reload_turns_it_on_and_off_and_opens_the_file_anew(plane: Plane, tmp_path: Path) -> None:
    farm, moved = hobbit(), tmp_path / "queries.log.1"
    async with answering(farm, plane, tmp_path / "queries.log", 0.0) as there:
        await ask_udp(there.endpoint, QUERY)
        there.listeners.log_queries(logging_to(farm, there.file))
        await ask_udp(there.endpoint, QUERY)
        await there.logged(1)
        there.file.rename(moved)
        await ask_udp(there.endpoint, QUERY)
        await until(lambda: moved.read_text().count("\n") == 2)
        there.listeners.log_queries(logging_to(farm, there.file))
        await ask_udp(there.endpoint, QUERY)
        assert len(await there.logged(1)) == 1
        other = tmp_path / "other.log"
        there.listeners.log_queries(logging_to(farm, other))
        await ask_udp(there.endpoint, QUERY)
        await until(lambda: other.exists() and other.read_text().count("\n") == 1)
        there.listeners.log_queries(farm)
        await ask_udp(there.endpoint, QUERY)
    assert len(there.lines()) == 1
    assert other.read_text().count("\n") == 1
    assert moved.read_text().count("\n") == 2


async def test_what_waits_when_it_stops_is_written(plane: Plane, tmp_path: Path) -> None:
    async with answering(hobbit(), plane, tmp_path / "queries.log") as there:
        for query in with_ids(QUERY, range(50)):
            await ask_udp(there.endpoint, query)
    assert len(there.lines()) == 50
    assert there.listeners.counters()["query_log_lost"] == 0


async def test_an_upstreams_answer_is_logged_when_it_comes(plane: Plane, tmp_path: Path) -> None:
    farm = hobbit()
    forward = ForwardConfig(allow=(parse_network("127.0.0.0/8"),))
    farm = replace(farm, config=replace(farm.config, forward=forward))
    query = make_query("www.example.org", recurse=True)
    async with answering(farm, plane, tmp_path / "queries.log") as there:
        with udp_socket(there.endpoint) as sock:
            sock.send(query)
            await until(lambda: there.relays)
            ((relay, reply),) = there.relays
            assert isinstance(relay, RelayedQuery)
            assert there.lines() == []
            answer = query[:2] + b"\x81\x83" + query[4:]
            reply(answer)
            assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, 512), PATIENCE) == answer
        (line,) = await there.logged(1)
        assert (line["name"], line["rcode"], line["us"]) == ("www.example.org", "NXDOMAIN", None)
