"""The collector checks members whose reports are overdue; reloads and take-overs keep the results."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.farm import Farm
from lbdns.model.farm_reader import load_farm
from lbdns.model.snapshot import EMPTY_SNAPSHOT, Reading, Snapshot
from lbdns.process.apply_configuration import apply
from lbdns_collector.checks import icmp_prober
from lbdns_collector.reports.collector import Collector
from lbdns_shared.errors import ConfigError
from lbdns_shared.report import WEB_SERVER_FAILED
from tests.collector.collector_fixtures import ADDRESSES, KEY, datagram, until, write_zone
from tests.config.config_files import ZONE, pool_table

LONG = 50.0  # s: no report is overdue during a test
SHORT = 0.1


def farm_of(folder: Path, check: str, collector: str = 'listen = ["127.0.0.1:0"]') -> Farm:
    write_zone(folder)
    path = folder / "lbdns.toml"
    pool = pool_table(*ADDRESSES, more=f'check = {{ target = "{check}", interval = 0.1, timeout = 5.0 }}')
    path.write_text(f'[server]\nstate_dir = "state"\n{ZONE}{pool}[collector]\n{collector}\nstale_after = 1000\n')
    return load_farm(path)


class Stage:
    """A collector, its newest snapshot, and a function that reports to it."""

    def __init__(self, farm: Farm) -> None:
        self.collector = Collector(farm, (KEY,))
        self.snapshot: Snapshot = EMPTY_SNAPSHOT
        self.seq = 0

    def deliver(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def report(self, host: str = "frodo", interval: float = SHORT, alarm: str = "") -> None:
        self.seq += 1
        kind = "alarm" if alarm else "data"
        data = datagram(host, seq=self.seq, at=time.time(), interval=interval, kind=kind, alarm=alarm)  # type: ignore[arg-type]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            to = self.collector.addresses[0]
            sender.sendto(data, (to.host, to.port))

    def reading(self, host: str = "frodo") -> Reading | None:
        return self.snapshot.readings.get(f"{host}.hobbit")

    def failure(self, host: str = "frodo") -> str:
        reading = self.reading(host)
        return reading.failure("web") if reading else ""


@asynccontextmanager
async def started(farm: Farm) -> AsyncIterator[Stage]:
    stage = Stage(farm)
    await stage.collector.start(stage.deliver)
    try:
        yield stage
    finally:
        await stage.collector.stop()


async def test_a_dead_host_is_out_and_back_with_its_next_report(tmp_path: Path) -> None:
    async with started(farm_of(tmp_path, "tcp:9")) as stage:
        stage.report()
        await until(stage.failure)
        assert stage.failure() == "tcp:9: connection refused"
        assert stage.collector.check_counts["web", "failed"] >= 1
        stage.report(interval=LONG)
        await until(lambda: not stage.failure())
        version = stage.snapshot.version
        stage.report("bilbo", interval=LONG)
        await until(lambda: stage.snapshot.version > version)
        assert not stage.failure()


async def test_an_alarm_about_the_web_server_is_checked_at_once_and_keeps_its_result(tmp_path: Path) -> None:
    async with started(farm_of(tmp_path, "tcp:9")) as stage:
        stage.report(interval=LONG)
        stage.report(interval=LONG, alarm=f"{WEB_SERVER_FAILED}: nothing listens on port 80")
        await until(stage.failure)
        received = stage.reading().received  # type: ignore[union-attr]
        stage.report(interval=LONG, alarm=WEB_SERVER_FAILED)
        await until(lambda: stage.reading().received > received)  # type: ignore[union-attr]
        assert stage.failure()
        stage.report(interval=LONG)
        await until(lambda: not stage.failure())


async def test_an_alarm_about_load_is_not_checked(tmp_path: Path) -> None:
    async with started(farm_of(tmp_path, "tcp:9")) as stage:
        stage.report("bilbo", interval=LONG, alarm="listen_queue 300 > 256")
        stage.report("frodo", interval=LONG, alarm=WEB_SERVER_FAILED)
        await until(stage.failure)
        assert not stage.failure("bilbo")


async def test_reloads_change_the_check_and_keep_the_rest(tmp_path: Path) -> None:
    async with started(farm_of(tmp_path, "tcp:9")) as stage:
        stage.report("bilbo")
        await until(lambda: stage.failure("bilbo"))
        same = farm_of(tmp_path, "tcp:9")
        await apply([stage.collector], CheckedConfiguration(same, (KEY,)))
        assert stage.failure("bilbo")
        other = farm_of(tmp_path, "tcp:10")
        await apply([stage.collector], CheckedConfiguration(other, (KEY,)))
        await until(lambda: stage.failure("bilbo").startswith("tcp:10"))
        off = farm_of(tmp_path, "off")
        await apply([stage.collector], CheckedConfiguration(off, (KEY,)))
        await until(lambda: not stage.failure("bilbo"))
        assert stage.reading("bilbo") is not None


async def test_a_reload_with_a_check_that_is_not_permitted_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(family: int) -> None:
        raise PermissionError

    monkeypatch.setattr(icmp_prober, "open_echo_socket", refuse)
    async with started(farm_of(tmp_path, "tcp:9")) as stage:
        with pytest.raises(ConfigError, match="ICMP is not permitted"):
            await apply([stage.collector], CheckedConfiguration(farm_of(tmp_path, "icmp"), (KEY,)))
        stage.report()
        await until(lambda: stage.failure().startswith("tcp:9"))
    with pytest.raises(ConfigError, match="ICMP is not permitted"):
        Collector(farm_of(tmp_path, "icmp"), (KEY,)).open()


async def test_a_successor_knows_who_fails(tmp_path: Path) -> None:
    farm = farm_of(tmp_path, "tcp:9")
    async with started(farm) as stage:
        stage.report()
        await until(stage.failure)
        stage.collector.pause()
        state = stage.collector.table.state(time.monotonic())
        successor = Collector(farm, (KEY,))
        successor.table.restore(state, time.monotonic())
        assert successor.table.snapshot().readings["frodo.hobbit"].failure("web")
        counts = dict(stage.collector.check_counts)
        await asyncio.sleep(0)
        assert stage.collector.check_counts == counts
        stage.collector.resume()
        await until(lambda: stage.collector.check_counts["web", "failed"] > counts["web", "failed"])
