"""Tests of following a collector over HTTP: readings, broken connections, reconnecting, reloads and tokens."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.snapshot import Snapshot
from lbdns.process.apply_configuration import apply
from lbdns.secrets.http_credentials import HttpCredentials
from lbdns.server.collector_follower import CollectorFollower
from lbdns_collector.web.access_control import AccessControl
from lbdns_collector.web.app import make_app
from lbdns_collector.web.http_server import HttpServer
from lbdns_collector.web.web_interface import open_web_socket
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError
from tests.collector.collector_fixtures import (
    KEY,
    FakeSource,
    datagram,
    make_farm,
    reading,
    until,
    write_config,
    write_key,
)
from tests.collector.collector_process import running
from tests.server.following import STREAM, Seen, follower_of, following, lines, site, strange

pytestmark = pytest.mark.usefixtures("quick_follower")


async def test_readings_come_through(tmp_path: Path) -> None:
    seen = Seen()
    async with site(tmp_path) as collector:
        before = reading(age=70.0, interval=2.5, score=66, metrics={"cpu_idle": 42.5, "goblins": 3.0})
        collector.source.publish(gandalf=before)
        async with follower_of(following(tmp_path, collector.address), seen.deliver):
            await until(lambda: seen.score("gandalf"))
            after = seen.reading("gandalf")
            assert after is not None
            assert (after.interval, after.score, after.metrics) == (2.5, 66, before.metrics)
            assert after.received == pytest.approx(
                before.received, abs=60.0
            )  # not the time at which the follower received it
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
    """While the connection is down, the last snapshot stays in use and ages. The new connection sends the whole status.
    One log line each.
    """
    seen = Seen()
    async with site(tmp_path) as collector:
        collector.source.publish(gandalf=reading(score=1), frodo=reading(score=1))
        async with follower_of(following(tmp_path, collector.address), seen.deliver):
            await until(lambda: seen.score("gandalf") == 1)
            last = seen.snapshots[-1]
            await collector.stop()
            await until(lambda: any("readings age until the connection is back" in line for line in lines(caplog)))
            collector.source.publish(gandalf=reading(score=2))
            await asyncio.sleep(0.15)  # several attempts in vain: nothing may come of them, not even a log line
            assert seen.snapshots[-1] is last
            await collector.start()
            await until(lambda: seen.score("gandalf") == 2)
            assert seen.score("frodo") == 1
            collector.source.publish(frodo=reading(score=3))
            await until(lambda: seen.score("frodo") == 3)
    told = [line.split(": ", 1)[1].split(";")[0] for line in lines(caplog)]
    assert told == ["connected", "the collector closed the connection", "connected"]


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
    """A restarted collector has no reports yet, so the follower's readings stay in use and age until reports arrive."""
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
            await apply(
                [follower],
                CheckedConfiguration(following(tmp_path, collector.address, members=["gandalf", "frodo"]), ()),
            )
            await until(lambda: seen.score("frodo") == 2)  # told before, and kept
            assert seen.score("bilbo") is None
    assert not any("its pools lack" in line for line in lines(caplog))


async def test_overrides_of_members_that_are_added_later(tmp_path: Path) -> None:
    """A host joins this server's pool only after the status that names it and its override has been processed."""
    found: list[list[str]] = []
    async with site(tmp_path) as collector:
        collector.source.drain("frodo", "gandalf")
        follower = CollectorFollower(following(tmp_path, collector.address, members=["gandalf"]))
        follower.on_overrides = lambda overrides: found.append(sorted(each.member for each in overrides))
        await follower.start(lambda snapshot: None)
        await until(lambda: found)
        farm = following(tmp_path, collector.address, members=["gandalf", "frodo"])
        await apply([follower], CheckedConfiguration(farm, ()))
        assert found == [["gandalf.hobbit"], ["frodo.hobbit", "gandalf.hobbit"]]
        await follower.stop()


async def test_members_unknown_to_the_collector_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with site(tmp_path) as collector:
        collector.source.farm = make_farm(tmp_path / "collector", members=["frodo"])
        async with follower_of(following(tmp_path, collector.address), lambda snapshot: None):
            await until(lambda: len(lines(caplog)) == 2)
    assert "its pools do not contain the members bilbo.hobbit, gandalf.hobbit" in lines(caplog)[1]


async def test_reload_to_another_collector(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()
    (tmp_path / "other").mkdir()
    async with site(tmp_path) as one, site(tmp_path / "other") as two:
        one.source.publish(gandalf=reading(score=1))
        two.source.publish(gandalf=reading(score=2))
        async with follower_of(following(tmp_path, one.address), seen.deliver) as follower:
            await until(lambda: seen.score("gandalf") == 1)
            await apply([follower], CheckedConfiguration(following(tmp_path, two.address), ()))
            await until(lambda: seen.score("gandalf") == 2)
            await until(lambda: one.source.subscribers == 1)
            one.source.publish(gandalf=reading(score=3))
            two.source.publish(frodo=reading(score=5))
            await until(lambda: seen.score("frodo") == 5)
            assert seen.score("gandalf") == 2


async def test_a_reload_of_the_collector_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
    assert any("processing the collector's data failed" in line for line in lines(caplog))


async def test_a_token_is_sent_and_another_one_after_a_reload(tmp_path: Path) -> None:
    token = tmp_path / "token"
    readers = AccessControl(credentials=HttpCredentials(tokens=("one",)))
    source = FakeSource(make_farm(tmp_path))
    source.publish(gandalf=reading(score=7))
    server = HttpServer(make_app(source, readers), Endpoint("127.0.0.1", 0), open_web_socket(Endpoint("127.0.0.1", 0)))
    await server.start()
    try:
        token.write_text("one\n")
        connect = f'connect = "http://{server.address}"\nconnect_token_file = "token"'
        farm, seen = make_farm(tmp_path, collector=connect), Seen()
        async with follower_of(farm, seen.deliver) as follower:
            await until(lambda: seen.snapshots)
            readers.credentials = HttpCredentials(tokens=("two",))
            token.write_text("two\n")
            await apply([follower], CheckedConfiguration(farm, ()))
            count = len(seen.snapshots)
            source.publish(gandalf=reading(score=8))
            await until(
                lambda: len(seen.snapshots) > count and seen.snapshots[-1].readings["gandalf.hobbit"].score == 8
            )
            token.write_text("")
            with pytest.raises(ConfigError, match=r"connect_token_file: the file is empty"):
                await apply([follower], CheckedConfiguration(farm, ()))
    finally:
        await server.stop()


def test_a_token_without_a_collector_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"connect_token_file: has no effect without connect"):
        make_farm(tmp_path, collector='connect_token_file = "token"')


async def test_stop_is_quick_whatever_it_does(tmp_path: Path) -> None:
    async with strange(STREAM) as (address, calls):
        follower = CollectorFollower(following(tmp_path, address))
        await follower.start(lambda snapshot: None)
        await until(lambda: calls)
        started = time.monotonic()
        await follower.stop()
        await follower.stop()
        assert time.monotonic() - started < 30


async def test_a_real_collector_dies_and_comes_back(tmp_path: Path) -> None:
    """A collector receives reports over UDP and sends them to a follower over HTTP; it is killed and restarted."""
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
            await until(lambda: seen.score("gandalf") == 100)
            collector.send(datagram("frodo", seq=1, at=time.time(), kind="bye", metrics={}))
            await until(lambda: getattr(seen.reading("frodo"), "gone", False))
            collector.process.kill()
        write_config(tmp_path / "collector", collector=listen.format(*reports), web=f"{web[0]}:{web[1]}")
        with running(config) as collector:
            collector.send(datagram("bilbo", seq=1, at=time.time(), metrics={"cpu_idle": 50.0}))
            await until(lambda: seen.score("bilbo") == 50)
            assert seen.score("gandalf") == 100
