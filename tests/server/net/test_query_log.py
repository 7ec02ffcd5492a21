"""The query log: what is taken, what a line says, and a disk that doesn't take it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import resource
import stat
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any, Final

import dns.edns
import pytest

from lbdns.answering.errand import Errand, Relay
from lbdns.answering.plane import Plane
from lbdns.answering.respond import Responder
from lbdns.answering.table import Table
from lbdns.config import ForwardConfig
from lbdns.config.query_log import QueryLogConfig
from lbdns.config.reading import parse_network
from lbdns.endpoint import Endpoint
from lbdns.farm import Farm
from lbdns.listening import bound_endpoint
from lbdns.server.net import query_log as module
from lbdns.server.net.durations import Durations
from lbdns.server.net.listen import open_pair
from lbdns.server.net.listeners import Listeners
from lbdns.server.net.query_line import MemberNames, Sample, line_of
from lbdns.server.net.query_log import MAX_WAITING, QueryLog
from lbdns.server.net.query_watch import Reply, Sampler
from tests.answering.asking import TCP, UDP, make_query, make_responder, read
from tests.answering.farms import hobbit, pool
from tests.needs import needs
from tests.planes import PLANES
from tests.server.clients import PATIENCE, ask_tcp, ask_udp, udp_socket, until, with_ids

QUERY: Final = make_query("round.robin.hobbit")


@pytest.fixture(params=PLANES)
def plane(request: pytest.FixtureRequest) -> Plane:
    found: Plane = request.param
    return found


def logging_to(farm: Farm, file: Path | None, sample: float = 1.0) -> Farm:
    return replace(farm, config=replace(farm.config, query_log=QueryLogConfig(file, sample)))


class Answering:
    """A socket pair of a farm, and what was logged."""

    def __init__(self, farm: Farm, plane: Plane, file: Path) -> None:
        self.file = file
        self.responder = Responder(Table(farm, plane))
        self.listeners = Listeners(self.responder, Durations(), self._run)
        udp, tcp = open_pair(Endpoint("127.0.0.1", 0))
        self.endpoint = bound_endpoint(udp)
        self.sockets = {1: udp, 2: tcp}
        self.relays: list[tuple[Errand, Reply]] = []

    def _run(self, errand: Errand, reply: Reply) -> None:
        self.relays.append((errand, reply))

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    async def logged(self, count: int) -> list[dict[str, Any]]:
        await until(lambda: len(self.lines()) >= count)
        return self.lines()


@asynccontextmanager
async def answering(farm: Farm, plane: Plane, file: Path, sample: float = 1.0) -> AsyncIterator[Answering]:
    """All queries are logged unless ``sample`` says otherwise; 0: the log is off."""
    farm = logging_to(farm, file if sample else None, sample or 1.0)
    there = Answering(farm, plane, file)
    there.listeners.log_queries(farm)
    await there.listeners.take_up(there.sockets)
    try:
        yield there
    finally:
        await there.listeners.close()


def sample_of(query: bytes, response: bytes | None, **changes: Any) -> Sample:
    return Sample(1000.25, ("192.0.2.7", 5353), UDP, query, response, False, 0.0000123)._replace(**changes)


def lined(farm: Farm, query: bytes, response: bytes | None, **changes: Any) -> dict[str, Any]:
    line = line_of(sample_of(query, response, **changes), MemberNames(farm), 42)
    assert line is not None
    assert line.endswith("\n")
    assert line.count("\n") == 1
    found: dict[str, Any] = json.loads(line)
    return found


def answered(farm: Farm, query: bytes) -> bytes:
    response = make_responder(farm).respond(query, ("192.0.2.7", 5353))
    assert isinstance(response, bytes)
    return response


def test_a_line_says_it_all() -> None:
    query = make_query("BEST.hobbit")
    response = answered(hobbit(), query)
    assert lined(hobbit(), query, response) == {
        "time": 1000.25, "client": "192.0.2.7", "port": 5353, "transport": "udp", "name": "best.hobbit", "type": "A",
        "class": "IN", "rcode": "NOERROR", "bytes": len(response), "pool": "web", "member": "bilbo", "pid": 42,
        "us": 12.3,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["best.hobbit", "www.hobbit", "far.hobbit"])
@pytest.mark.parametrize("rtype", ["A", "AAAA", "CNAME", "ANY"])
def test_the_member_is_the_one_in_the_answer(name: str, rtype: str) -> None:
    query = make_query(name, rtype)
    response = answered(hobbit(), query)
    aliases = [rrset[0].target.to_text() for rrset in read(response).answer if rrset.rdtype == dns.rdatatype.CNAME]
    member = next((alias.removesuffix(".hobbit.") for alias in aliases if alias[:5] in ("bilbo", "frodo")), None)
    assert lined(hobbit(), query, response)["member"] == member
    assert member or (name != "best.hobbit" and rtype in ("CNAME", "ANY")), "an alias asked for itself leads to no pool"


def test_the_member_of_a_pool_that_answers_with_addresses() -> None:
    farm = hobbit(pool(answer="address"))
    for name, rtype, members in (
        ("round.robin.hobbit", "A", {"bilbo", "frodo", "gandalf"}),
        ("round.robin.hobbit", "AAAA", {None, "frodo", "gandalf"}),
    ):
        responder, found = make_responder(farm), set()
        for query in with_ids(make_query(name, rtype), range(3)):
            response = responder.respond(query, ("192.0.2.7", query[1]))
            assert isinstance(response, bytes)
            found.add(lined(farm, query, response)["member"])
        assert found == members


@pytest.mark.parametrize(
    ("name", "rtype", "rcode"),
    [("nowhere.hobbit", "A", "NXDOMAIN"), ("example.org", "MX", "REFUSED"), ("bilbo.hobbit", "A", "NOERROR")],
)
def test_what_names_no_member(name: str, rtype: str, rcode: str) -> None:
    query = make_query(name, rtype, payload=1232)
    line = lined(hobbit(), query, answered(hobbit(), query))
    assert (line["rcode"], line["pool"], line["member"]) == (rcode, None, None)


def test_unusual_queries() -> None:
    farm = hobbit()
    odd = make_query('a\\000b\\200\\"c.hobbit', "TYPE65280")
    line = lined(farm, odd, answered(farm, odd))
    assert (line["name"], line["type"]) == ('a\\000b\\200\\"c.hobbit', "TYPE65280")
    chaos = make_query("version.bind", "TXT")[:-2] + b"\0\3"
    assert lined(farm, chaos, answered(farm, chaos))["class"] == "CH"
    other = make_query("version.bind", "TXT")[:-2] + b"\0\7"
    assert lined(farm, other, answered(farm, other))["class"] == "CLASS7"
    newer = make_query("best.hobbit", payload=1232, version=1)
    assert lined(farm, newer, answered(farm, newer))["rcode"] == "BADVERS"
    broken = QUERY + b"x"
    line = lined(farm, broken, answered(farm, broken))
    assert (line["name"], line["rcode"]) == ("round.robin.hobbit", "FORMERR")


def test_no_answer_and_a_transfer() -> None:
    line = lined(hobbit(), QUERY, None)
    assert (line["rcode"], line["bytes"], line["member"]) == (None, 0, None)
    line = lined(hobbit(), make_query("hobbit", "AXFR"), None, transport=TCP, transferred=True, seconds=None)
    assert (line["transport"], line["rcode"], line["bytes"], line["us"]) == ("tcp", "NOERROR", None, None)


@pytest.mark.parametrize("query", [b"", b"short", QUERY[:2] + b"\x80" + QUERY[3:]])
def test_what_is_no_query_has_no_line(query: bytes) -> None:
    assert line_of(sample_of(query, None), MemberNames(hobbit()), 42) is None


def test_responses_of_others_can_be_anything() -> None:
    names = MemberNames(hobbit())
    response = answered(hobbit(), QUERY)
    chance = random.Random(7)
    for _ in range(3000):
        mangled = bytearray(response[: chance.randrange(12, len(response) + 1)])
        for _ in range(chance.randrange(6)):
            mangled[chance.randrange(4, len(mangled))] = chance.choice((0, 1, 12, 63, 0xC0, 0xFF))
        assert line_of(sample_of(QUERY, bytes(mangled)), names, 42)
    looping = response[:12] + QUERY[12:] + b"\xc0" + bytes((len(QUERY),)) + b"\0\1\0\1\0\0\0\0\0\4abcd"
    assert line_of(sample_of(QUERY, looping), names, 42)


@pytest.mark.parametrize("part", [1.0, 0.3, 0.01])
def test_each_query_is_taken_with_the_same_probability(part: float) -> None:
    chance = random.Random(5)
    sampler, at, taken = Sampler(part, chance.random), 0, []
    while at < 200_000:
        at += sampler.gap()
        taken.append(at)
        at += 1
    assert len(taken) == pytest.approx(200_000 * part, rel=0.05)
    # Whatever the period of what is asked: its places are met alike
    for period in (2, 3, 10):
        met = Counter(place % period for place in taken)
        assert max(met.values()) < 1.25 * len(taken) / period
        assert min(met.values()) > 0.75 * len(taken) / period


async def test_queries_over_both_transports(plane: Plane, tmp_path: Path) -> None:
    async with answering(hobbit(), plane, tmp_path / "queries.log") as there:
        before = time()
        responses = [await ask_udp(there.endpoint, query) for query in with_ids(QUERY, range(5))]
        responses.append(await ask_tcp(there.endpoint, QUERY))
        lines = await there.logged(6)
        assert [line["bytes"] for line in lines] == [len(response) for response in responses]
        assert [line["transport"] for line in lines] == ["udp"] * 5 + ["tcp"]
        members = [read(response).answer[0][0].target.to_text().removesuffix(".hobbit.") for response in responses]
        assert [line["member"] for line in lines] == members
        assert {line["client"] for line in lines} == {"127.0.0.1"}
        assert all(line["port"] and line["pid"] == os.getpid() and 0 < line["us"] < 1e6 for line in lines)
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
        assert udp.run_errand == tcp.run_errand == there._run
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
            assert isinstance(relay, Relay)
            assert there.lines() == []
            answer = query[:2] + b"\x81\x83" + query[4:]
            reply(answer)
            assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, 512), PATIENCE) == answer
        (line,) = await there.logged(1)
        assert (line["name"], line["rcode"], line["us"]) == ("www.example.org", "NXDOMAIN", None)


def taken(log: QueryLog, count: int) -> None:
    response = answered(hobbit(), QUERY)
    for _ in range(count):
        log._take(sample_of(QUERY, response))


@contextmanager
def longest_file(size: int) -> Iterator[None]:
    """The kernel takes no more bytes of a file; Python ignores the signal that says so."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_disk_that_is_full_costs_lines_and_one_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(module, "RETRY", 0.0)
    file = tmp_path / "queries.log"
    log = QueryLog()
    log.use(logging_to(hobbit(), file))
    # A line has some 200 bytes, by the number of the process: never does a whole number of them end just there
    with longest_file(999):
        taken(log, 100)
        await until(lambda: log.lost)
        await until(lambda: log._writer and log._writer.waiting.empty())
    assert [record.message for record in caplog.records] == [
        f"query log: {file}: File too large; until that is mended queries are counted as lost"
    ]
    await until(lambda: log.lost + file.read_bytes().count(b"\n") == 100)
    assert file.stat().st_size == 999, "the last line is torn"
    taken(log, 3)
    log.stop()
    lost = log.lost
    lines = file.read_text().splitlines()
    assert len(lines) == 100 - lost + 1 + 3, "the torn line stands alone"
    assert all(json.loads(line) for line in lines[-3:])
    assert caplog.messages[1:] == [f"query log: {file} is written again"]


@pytest.mark.parametrize("what", ["folder", "nowhere", "pipe"])
async def test_a_file_that_is_none(what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "queries.log"
    if what == "folder":
        file.mkdir()
    elif what == "nowhere":
        file = tmp_path / "nowhere" / "queries.log"
    else:
        os.mkfifo(file)
    log = QueryLog()
    log.use(logging_to(hobbit(), file))
    taken(log, 5)
    await until(lambda: log.lost == 5)
    log.stop()
    assert log.lost == 5
    assert len(caplog.records) == 1
    assert str(file) in caplog.messages[0]


async def test_no_more_waits_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    monkeypatch.setattr(module, "PAUSE", PATIENCE)  # the writer rests; its end wakes it
    log = QueryLog()
    log.use(logging_to(hobbit(), tmp_path / "queries.log"))
    taken(log, 1)
    await until(lambda: (tmp_path / "queries.log").exists() and (tmp_path / "queries.log").stat().st_size)
    taken(log, 10)
    log.stop()
    assert log.lost == 7
    assert (tmp_path / "queries.log").read_text().count("\n") == 4
    assert MAX_WAITING > 1000


async def test_several_add_whole_lines_to_one_file(tmp_path: Path) -> None:
    """As workers do: each with a log and a descriptor of its own."""
    file = tmp_path / "queries.log"
    logs = [QueryLog() for _ in range(4)]
    for log in logs:
        log.use(logging_to(hobbit(), file))
    for _ in range(5):
        for log in logs:
            taken(log, 40)
    for log in logs:
        log.stop()
    lines = file.read_text().splitlines()
    assert len(lines) == 800
    assert all(json.loads(line)["name"] == "round.robin.hobbit" for line in lines)


@needs(native=True)
@pytest.mark.parametrize("part", [1.0, 0.25, 0.02])
def test_the_native_part_takes_as_many(part: float) -> None:
    import lbdns_native

    from lbdns.server.native import NativePlane
    from tests.server.test_native import NOW, WALL, Asked

    asked = Asked(hobbit(), NativePlane(), ())
    try:
        batch = asked.server._batch
        asked.ask(QUERY)
        batch.sample(part, 99)
        responder, counts = asked.responder, Counter[str]()
        total = 20_000
        for _ in range(total // 50):
            for query in with_ids(QUERY, range(50)):
                asked.client.send(query)
            read = 0
            while read < 50:
                read += batch.drain(
                    asked.sock.fileno(), responder.table.compiled, responder.limiter, responder.recent,
                    responder.coherence, responder.cookies, NOW, WALL, False,
                )[0]  # fmt: skip
                samples, asides = batch.take_samples()
                assert asides == []
                for query, _client, response, seconds in samples:
                    counts["taken"] += 1
                    counts[f"place {int.from_bytes(query[:2], 'big') % 5}"] += 1
                    assert response is not None
                    assert response[:2] == query[:2]
                    assert 0 < seconds < 1
            for _ in range(50):
                asked.client.recv(512)
        assert counts["taken"] == pytest.approx(total * part, rel=0.15 if part < 0.1 else 0.05)
        assert min(counts[f"place {place}"] for place in range(5)) > 0.6 * counts["taken"] / 5
        batch.sample(0.0, 0)
        asked.ask(QUERY)
        assert batch.take_samples() == ([], [])
        with pytest.raises(ValueError, match="from 0 to 1"):
            lbdns_native.Batch().sample(1.5, 0)
    finally:
        asked.close()
