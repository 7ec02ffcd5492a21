"""Tests of membership: several joins in one change, departures, failures, and the file."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lbdns.events.event_log import EventLog
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.farm import Farm
from lbdns.model.joined_members import NO_JOINED_MEMBERS, JoinedMember, JoinedMembers, with_joined
from lbdns_collector.joining.joined_file import joined_path, read_joined
from lbdns_collector.reports import membership as membership_module
from lbdns_collector.reports.collector import Collector
from lbdns_collector.reports.membership import Membership
from lbdns_shared.errors import LbdnsError
from tests.collector.collector_fixtures import KEY, until
from tests.collector.joining.joining_farms import joinable, report_of, signed


@dataclass
class Stage:
    """A collector whose reports the test passes to its table, and its membership."""

    configured: Farm
    collector: Collector
    events: EventLog
    changes: list[JoinedMembers] = field(default_factory=list)
    failure: str = ""
    membership: Membership = field(init=False)

    async def apply(self, joined: JoinedMembers) -> None:
        self.changes.append(joined)
        if self.failure:
            raise LbdnsError(self.failure)
        farm, refused = with_joined(self.configured, joined)
        assert refused == []
        new = CheckedConfiguration(farm, (KEY,), joined=joined, without_joined=self.configured)
        (await self.collector.prepare(new)).commit()

    def report(self, name: str, seq: int = 1, kind: str = "data", age: float = 0.0) -> str:
        number = int(name.rpartition("-")[2])
        report = report_of(name, seq=seq, at=time.time(), kind=kind)  # type: ignore[arg-type]
        found = self.collector.table.accept(signed(report), f"10.0.0.{number}", time.monotonic() - age, time.time())
        self.collector._changed()
        return found

    @property
    def members(self) -> list[str]:
        return [member.name for member in self.collector.farm.pools[0].members]

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.events.newest()]


@contextlib.asynccontextmanager
async def staged(folder: Path, join: str, joined: JoinedMembers = NO_JOINED_MEMBERS) -> AsyncIterator[Stage]:
    configured = joinable(folder, members=(), join=join)
    events = EventLog()
    farm, _ = with_joined(configured, joined)
    stage = Stage(configured, Collector(farm, (KEY,), events, configured=configured, joined=joined), events)
    stage.membership = Membership(stage.collector, stage.apply, events)
    stage.membership.start()
    try:
        yield stage
    finally:
        await stage.membership.stop()


def join(leave_after: str = "1h", most: int = 200) -> str:
    return f'join = {{ names = "web-*", networks = ["10.0.0.0/8"], max = {most}, leave_after = "{leave_after}" }}'


async def test_hosts_that_join_at_once_need_one_change(tmp_path: Path) -> None:
    async with staged(tmp_path, join()) as stage:
        for number in range(1, 51):
            assert stage.report(f"web-{number}") == "accepted"
        await until(lambda: len(stage.members) == 50)
        assert len(stage.changes) == 1
        assert stage.texts == [
            "pool web: 50 members joined: web-1, web-2, web-3, web-4, web-5, web-6, web-7, web-8 and 42 more"
        ]
        path = joined_path(stage.collector.farm.config)
        await until(lambda: len(read_joined(path).items) == 50)


async def test_a_member_that_stopped_leaves(tmp_path: Path) -> None:
    async with staged(tmp_path, join("1s")) as stage:
        stage.report("web-1", age=2.5)
        stage.report("web-2")
        await until(lambda: len(stage.members) == 2)
        assert stage.report("web-1", seq=2, kind="bye", age=2.0) == "accepted"
        await until(lambda: stage.members == ["web-2"])
        assert any(re.fullmatch(r"pool web: web-1 left: stopped [2-9]s ago", text) for text in stage.texts), stage.texts
        await until(lambda: len(read_joined(joined_path(stage.collector.farm.config)).items) == 1)


async def test_a_silent_member_leaves_if_another_one_reports(tmp_path: Path) -> None:
    members = [JoinedMember("web", f"web-{n}", (f"10.0.0.{n}",)) for n in (1, 2)]
    async with staged(tmp_path, join("5s"), NO_JOINED_MEMBERS.changed(put=members)) as stage:
        stage.report("web-1", age=7.0)
        stage.report("web-2", age=6.0)
        found = stage.membership._departures(time.monotonic())
        assert found == [], "nobody reports, so all members stay"
        stage.report("web-2", seq=2)
        await until(lambda: stage.members == ["web-2"])
        assert "pool web: web-1 left: silent for 7s" in stage.texts


async def test_members_of_an_earlier_run_have_time_to_report(tmp_path: Path) -> None:
    joined = NO_JOINED_MEMBERS.changed(put=[JoinedMember("web", "web-1", ("10.0.0.1",))])
    async with staged(tmp_path, join("30s"), joined) as stage:
        stage.report("web-2")
        await until(lambda: stage.members == ["web-1", "web-2"])
        now = time.monotonic()
        assert stage.membership._departures(now + 20) == []
        stage.report("web-2", seq=2, age=-40)
        assert [each.name for each, _ in stage.membership._departures(now + 40)] == ["web-1"]


async def test_the_new_address_of_a_member(tmp_path: Path) -> None:
    joined = NO_JOINED_MEMBERS.changed(put=[JoinedMember("web", "web-1", ("10.0.0.99",))])
    async with staged(tmp_path, join(), joined) as stage:
        stage.report("web-1")
        await until(lambda: stage.collector.farm.pools[0].members[0].addresses == ("10.0.0.1",))
        assert "pool web: web-1 joined with 10.0.0.1" in stage.texts


async def test_a_change_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership_module, "RETRY", 0.01)
    async with staged(tmp_path, join()) as stage:
        stage.failure = "workers 0 can't use the new configuration"
        stage.report("web-1")
        await until(lambda: len(stage.changes) > 1)
        assert stage.members == []
        stage.failure = ""
        stage.report("web-1", seq=2)
        await until(lambda: stage.members == ["web-1"])


async def test_a_full_disk_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with staged(tmp_path, join()) as stage:
        (tmp_path / "state").write_text("not a directory")
        stage.report("web-1")
        await until(lambda: stage.members == ["web-1"])
        await until(lambda: "cannot write the file" in caplog.text)
        stage.report("web-2")
        await until(lambda: stage.members == ["web-1", "web-2"])


async def test_stopping_ends_the_watch(tmp_path: Path) -> None:
    async with staged(tmp_path, join()) as stage:
        await stage.membership.stop()
        stage.report("web-1")
        await asyncio.sleep(0)
        assert stage.changes == []
