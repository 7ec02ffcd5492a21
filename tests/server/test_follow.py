"""Following a collector over HTTP: what comes through, cuts and reconnecting, and servers that are none."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path

import pytest

from lbdns.endpoint import Endpoint
from lbdns.errors import ConfigError
from lbdns.farm import Farm
from lbdns.http_credentials import Credentials
from lbdns.server import follow
from lbdns.server.follow import DEAD_AFTER, Follower
from lbdns.snapshot import Reading, Snapshot
from lbdns_collector.readers import Readers
from lbdns_collector.web.app import make_app
from lbdns_collector.web.server import WebServer
from tests.collector.making import KEY, FakeSource, datagram, make_farm, reading, until, write_config, write_key
from tests.collector.running import running


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(follow, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(follow, "LONGEST_PAUSE", 0.05)
    caplog.set_level(logging.INFO, "lbdns.follow")


class Site:
    """A collector's HTTP side that a test stops and starts again at the same address."""

    def __init__(self, folder: Path) -> None:
        (folder / "collector").mkdir()
        self.source = FakeSource(make_farm(folder / "collector"))
        self.address = Endpoint("127.0.0.1", 0)
        self._server: WebServer | None = None

    async def start(self) -> None:
        self._server = WebServer(make_app(self.source), self.address)
        await self._server.start()
        self.address = self._server.address

    async def stop(self) -> None:
        if self._server:
            await self._server.stop()
            self._server = None


@contextlib.asynccontextmanager
async def site(folder: Path) -> AsyncIterator[Site]:
    found = Site(folder)
    await found.start()
    try:
        yield found
    finally:
        await found.stop()


def following(folder: Path, address: Endpoint, **changes: object) -> Farm:
    return make_farm(folder, collector=f'connect = "http://{address}"', **changes)


class Seen:
    """The snapshots a follower delivered."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []

    def deliver(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    def reading(self, name: str) -> Reading | None:
        return self.snapshots[-1].readings.get(f"{name}.hobbit") if self.snapshots else None

    def score(self, name: str) -> int | None:
        found = self.reading(name)
        return found.score if found else None


@contextlib.asynccontextmanager
async def follower_of(
    farm: Farm, deliver: Callable[[Snapshot], None], dead_after: float = DEAD_AFTER
) -> AsyncIterator[Follower]:
    follower = Follower(farm, dead_after)
    await follower.start(deliver)
    try:
        yield follower
    finally:
        await follower.stop()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "lbdns.follow"]


async def test_readings_come_through(tmp_path: Path) -> None:
    seen = Seen()
    async with site(tmp_path) as collector:
        before = reading(age=7.0, interval=2.5, score=66, metrics={"cpu_idle": 42.5, "goblins": 3.0})
        collector.source.publish(gandalf=before)
        async with follower_of(following(tmp_path, collector.address), seen.deliver):
            await until(lambda: seen.score("gandalf"))
            after = seen.reading("gandalf")
            assert after is not None
            assert (after.interval, after.score, after.metrics) == (2.5, 66, before.metrics)
            assert after.received == pytest.approx(before.received, abs=2.0)  # ages go on, whoever tells them
            assert seen.reading("frodo") is None
            for score in range(10):
                collector.source.publish(frodo=reading(score=score))
                await until(lambda score=score: seen.score("frodo") == score)  # type: ignore[misc]
            assert seen.reading("gandalf") == after
    versions = [snapshot.version for snapshot in seen.snapshots]
    assert versions == sorted(set(versions))


async def test_alarm_and_bye_come_through(tmp_path: Path) -> None:
    seen = Seen()
    async with site(tmp_path) as collector:
        collector.source.publish(gandalf=reading(gone=True), frodo=reading(alarm="swapping"))
        async with follower_of(following(tmp_path, collector.address), seen.deliver):
            await until(lambda: seen.snapshots)
            gandalf, frodo = seen.reading("gandalf"), seen.reading("frodo")
            assert gandalf is not None
            assert frodo is not None
            assert (gandalf.gone, frodo.alarm) == (True, "swapping")
            collector.source.publish(gandalf=reading(), frodo=reading(gone=True))
            await until(lambda: getattr(seen.reading("frodo"), "gone", False))
            gandalf = seen.reading("gandalf")
            assert gandalf
            assert (gandalf.gone, gandalf.alarm) == (False, "")


async def test_a_cut_is_waited_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While it is cut the last snapshot stays and ages; afterwards the whole comes anew; each is told once."""
    seen = Seen()
    async with site(tmp_path) as collector:
        collector.source.publish(gandalf=reading(score=1), frodo=reading(score=1))
        async with follower_of(following(tmp_path, collector.address), seen.deliver):
            await until(lambda: seen.score("gandalf") == 1)
            last = seen.snapshots[-1]
            await collector.stop()
            await until(lambda: any("trying until it is back" in line for line in lines(caplog)))
            collector.source.publish(gandalf=reading(score=2))
            await asyncio.sleep(0.15)  # several attempts in vain: nothing may come of them, not even a log line
            assert seen.snapshots[-1] is last
            await collector.start()
            await until(lambda: seen.score("gandalf") == 2)
            assert seen.score("frodo") == 1
            collector.source.publish(frodo=reading(score=3))
            await until(lambda: seen.score("frodo") == 3)
    told = [line.split(": ", 1)[1].split(";")[0] for line in lines(caplog)]
    assert told == ["following", "has closed the connection", "following"]


async def test_a_collector_that_comes_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()
    async with site(tmp_path) as collector:
        await collector.stop()
        async with follower_of(following(tmp_path, collector.address), seen.deliver):
            await until(lambda: lines(caplog))
            await collector.start()
            collector.source.publish(gandalf=reading(score=4))
            await until(lambda: seen.score("gandalf") == 4)
    assert "Connect" in lines(caplog)[0]


async def test_a_restarted_collector_takes_nothing_away(tmp_path: Path) -> None:
    """It has heard of nobody yet; what is known here stays, and ages, until it has."""
    seen = Seen()
    async with site(tmp_path) as collector:
        collector.source.publish(gandalf=reading(score=1))
        async with follower_of(following(tmp_path, collector.address), seen.deliver):
            await until(lambda: seen.score("gandalf") == 1)
            before = seen.reading("gandalf")
            await collector.stop()
            collector.source = FakeSource(collector.source.farm)
            await collector.start()
            collector.source.publish(frodo=reading(score=2))
            await until(lambda: seen.score("frodo") == 2)
            assert seen.reading("gandalf") == before


async def test_only_members_of_the_farm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()
    async with site(tmp_path) as collector:
        collector.source.publish(gandalf=reading(score=1), frodo=reading(score=2), bilbo=reading(score=3))
        farm = following(tmp_path, collector.address, members=["gandalf"])
        async with follower_of(farm, seen.deliver) as follower:
            await until(lambda: seen.snapshots)
            assert set(seen.snapshots[-1].readings) == {"gandalf.hobbit"}
            await follower.reload(following(tmp_path, collector.address, members=["gandalf", "frodo"]), ())
            await until(lambda: seen.score("frodo") == 2)  # told before, and kept
            assert seen.score("bilbo") is None
    assert not any("does not know" in line for line in lines(caplog))


async def test_members_nobody_knows_there_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with site(tmp_path) as collector:
        collector.source.farm = make_farm(tmp_path / "collector", members=["frodo"])
        async with follower_of(following(tmp_path, collector.address), lambda snapshot: None):
            await until(lambda: len(lines(caplog)) == 2)
    assert "does not know bilbo.hobbit, gandalf.hobbit" in lines(caplog)[1]


async def test_reload_to_another_collector(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()
    (tmp_path / "other").mkdir()
    async with site(tmp_path) as one, site(tmp_path / "other") as two:
        one.source.publish(gandalf=reading(score=1))
        two.source.publish(gandalf=reading(score=2))
        async with follower_of(following(tmp_path, one.address), seen.deliver) as follower:
            await until(lambda: seen.score("gandalf") == 1)
            await follower.reload(following(tmp_path, two.address), ())
            await until(lambda: seen.score("gandalf") == 2)
            await until(lambda: one.source.subscribers == 1)
            one.source.publish(gandalf=reading(score=3))
            two.source.publish(frodo=reading(score=5))
            await until(lambda: seen.score("frodo") == 5)
            assert seen.score("gandalf") == 2


async def test_each_collector_that_does_not_answer_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mute = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    async with (
        strange(mute) as (one, first_calls),
        strange(mute) as (two, second_calls),
        follower_of(following(tmp_path, one), lambda snapshot: None) as follower,
    ):
        await until(lambda: len(first_calls) >= 2)
        await follower.reload(following(tmp_path, two), ())
        await until(lambda: len(second_calls) >= 2)
    assert [f"http://{address}" in line for address, line in zip((one, two), lines(caplog), strict=True)] == [
        True,
        True,
    ]


async def test_a_reload_over_there_is_no_news_for_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()
    async with site(tmp_path) as collector, follower_of(following(tmp_path, collector.address), seen.deliver):
        await until(lambda: lines(caplog))
        (tmp_path / "new").mkdir()
        collector.source.farm = make_farm(tmp_path / "new")
        collector.source.changed()
        collector.source.publish(gandalf=reading(score=3))
        await until(lambda: seen.score("gandalf") == 3)
    assert len(lines(caplog)) == 1


async def test_a_delivery_that_fails_does_not_end_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()

    def deliver(snapshot: Snapshot) -> None:
        if not seen.snapshots:
            seen.deliver(snapshot)
            raise RuntimeError("of whoever plans with it")
        seen.deliver(snapshot)

    async with site(tmp_path) as collector, follower_of(following(tmp_path, collector.address), deliver):
        await until(lambda: seen.snapshots)
        collector.source.publish(gandalf=reading(score=9))
        await until(lambda: seen.score("gandalf") == 9)
    assert any("could not be used" in line for line in lines(caplog))


@contextlib.asynccontextmanager
async def strange(*answers: bytes) -> AsyncIterator[tuple[Endpoint, list[float]]]:
    """A server that gives each connection the next of these answers (the last for ever) and then falls mute."""
    calls: list[float] = []
    writers: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers[min(len(calls), len(answers) - 1)])
        calls.append(time.monotonic())
        writers.append(writer)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield Endpoint(host, port), calls
    finally:
        for writer in writers:
            writer.close()
        server.close()


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

STRANGE = [
    ("mute", b"", "nothing heard for 0.1 s"),
    ("mute after the head", STREAM, "nothing heard for 0.1 s"),
    ("another service", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi", "200 text/html"),
    ("not found", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "answers 404"),
    ("no HTTP", b"SSH-2.0-OpenSSH\r\n\r\n", "400"),
    ("no JSON", STREAM + b"event: status\ndata: hello\n\n", "no status of lbdns"),
    ("no status", STREAM + b"event: status\ndata: {}\n\n", "no status of lbdns: there is no list of pools"),
    ("deeply nested", STREAM + b"event: status\ndata: " + b"[" * 100_000 + b"\n\n", "starting anew"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "what"), [row[1:] for row in STRANGE], ids=[row[0] for row in STRANGE])
async def test_what_is_no_collector(tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: bytes, what: str) -> None:
    seen = Seen()
    async with (
        strange(answer) as (address, calls),
        follower_of(following(tmp_path, address), seen.deliver, dead_after=0.1),
    ):
        await until(lambda: len(calls) >= 3)  # it is tried again
    told = [line for line in lines(caplog) if "trying until it is back" in line]
    assert len(told) == 1, told
    assert what in told[0]
    assert seen.snapshots == []


async def test_unknown_events_are_skipped(tmp_path: Path) -> None:
    seen = Seen()
    status = (
        b'event: status\ndata: {"pools":[{"zone":"hobbit","members":[{"name":"gandalf","age_s":0,"interval_s":1,'
        b'"score":5,"metrics":{},"colour":"grey"}],"mood":1}],"weather":"fine"}\n\n'
    )
    async with (
        strange(STREAM + b": hello\n\nevent: party\ndata: x\n\n" + status) as (address, calls),
        follower_of(following(tmp_path, address), seen.deliver),
    ):
        await until(lambda: seen.score("gandalf") == 5)
        assert len(calls) == 1


async def test_pauses_grow_and_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(follow, "LONGEST_PAUSE", 0.08)
    async with (
        strange(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n") as (address, calls),
        follower_of(following(tmp_path, address), lambda snapshot: None),
    ):
        await until(lambda: len(calls) >= 6)
    pauses = [after - before for before, after in pairwise(calls)]
    assert all(pause >= least for pause, least in zip(pauses, (0.02, 0.04, 0.08, 0.08, 0.08), strict=False))
    assert pauses[4] < 5


async def test_a_token_is_sent_and_another_one_after_a_reload(tmp_path: Path) -> None:
    token = tmp_path / "token"
    readers = Readers(credentials=Credentials(tokens=("one",)))
    source = FakeSource(make_farm(tmp_path))
    source.publish(gandalf=reading(score=7))
    server = WebServer(make_app(source, readers), Endpoint("127.0.0.1", 0))
    await server.start()
    try:
        token.write_text("one\n")
        connect = f'connect = "http://{server.address}"\nconnect_token_file = "token"'
        farm, seen = make_farm(tmp_path, collector=connect), Seen()
        async with follower_of(farm, seen.deliver) as follower:
            await until(lambda: seen.snapshots)
            readers.credentials = Credentials(tokens=("two",))
            token.write_text("two\n")
            await follower.reload(farm, ())
            count = len(seen.snapshots)
            source.publish(gandalf=reading(score=8))
            await until(
                lambda: len(seen.snapshots) > count and seen.snapshots[-1].readings["gandalf.hobbit"].score == 8
            )
            token.write_text("")
            with pytest.raises(ConfigError, match=r"connect_token_file: is empty"):
                await follower.reload(farm, ())
    finally:
        await server.stop()


def test_a_token_needs_somebody_to_send_it_to(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"connect_token_file: says nothing without connect"):
        make_farm(tmp_path, collector='connect_token_file = "token"')


async def test_stop_is_quick_whatever_it_does(tmp_path: Path) -> None:
    async with strange(STREAM) as (address, calls):
        follower = Follower(following(tmp_path, address))
        await follower.start(lambda snapshot: None)
        await until(lambda: calls)
        started = time.monotonic()
        await follower.stop()
        await follower.stop()
        assert time.monotonic() - started < 5


async def test_a_real_collector_dies_and_comes_back(tmp_path: Path) -> None:
    """UDP in, HTTP between two programs, snapshots out; killed without a word, and started again."""
    (tmp_path / "collector").mkdir()
    write_key(tmp_path / "collector", KEY)
    listen = 'key_file = "report.key"\nlisten = ["{}:{}"]'
    config = write_config(tmp_path / "collector", collector=listen.format("127.0.0.1", 0))
    seen = Seen()
    async with contextlib.AsyncExitStack() as stack:
        with running(config) as collector:
            reports, web = collector.reports, collector.web
            await stack.enter_async_context(follower_of(following(tmp_path, Endpoint(*web)), seen.deliver))
            collector.send(datagram("gandalf", seq=1, at=time.time()))
            await until(lambda: seen.score("gandalf") == 80)
            collector.send(datagram("frodo", seq=1, at=time.time(), kind="bye", metrics={}))
            await until(lambda: getattr(seen.reading("frodo"), "gone", False))
            collector.process.kill()
        write_config(tmp_path / "collector", collector=listen.format(*reports), web=f"{web[0]}:{web[1]}")
        with running(config) as collector:
            collector.send(datagram("bilbo", seq=1, at=time.time(), metrics={"cpu_idle": 50.0}))
            await until(lambda: seen.score("bilbo") == 49)
            assert seen.score("gandalf") == 80
