"""Tests of the member checker: real checks on the loopback, how many at a time, and what they do to a pool."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns.model.farm import Farm
from lbdns.model.farm_reader import load_farm
from lbdns.model.liveness import pool_liveness
from lbdns.model.overrides import NO_OVERRIDES
from lbdns.model.snapshot import FailedCheck, Reading, Snapshot
from lbdns_collector.checks import member_checker
from lbdns_collector.checks.check_schedule import MemberCheck
from lbdns_collector.checks.member_checker import MemberChecker
from lbdns_collector.checks.probe_result import PASSED, ProbeResult
from lbdns_shared.report import WEB_SERVER_FAILED
from tests.collector.collector_fixtures import until
from tests.config.config_files import ZONE, pool_table

LONG = 1000.0  # s: an interval whose reports are not due during a test


class Table:
    """The readings of a test's members."""

    def __init__(self, readings: Mapping[str, Reading]) -> None:
        self.readings = dict(readings)
        self.changes = 0

    def reading(self, member: str) -> Reading | None:
        return self.readings.get(member)

    def replace(self, member: str, reading: Reading) -> None:
        self.readings[member] = reading

    def members(self) -> Iterable[str]:
        return self.readings

    def changed(self) -> None:
        self.changes += 1


def farm_of(folder: Path, check: str, addresses: Mapping[str, str], more: str = "") -> Farm:
    lines = ["$TTL 60", "@ SOA ns hostmaster 1 3600 600 86400 60", "@ NS ns", "ns A 127.0.0.1"]
    lines += [
        f"{name} {'AAAA' if ':' in each else 'A'} {each}" for name, text in addresses.items() for each in text.split()
    ]
    (folder / "hobbit.zone").write_text("\n".join(lines) + "\n")
    path = folder / "lbdns.toml"
    path.write_text(ZONE + pool_table(*addresses, more=f"check = {check}") + more)
    return load_farm(path)


def overdue(*names: str, interval: float = LONG) -> dict[str, Reading]:
    return {f"{name}.hobbit": Reading(time.monotonic() - 1.6 * interval, interval, 50) for name in names}


@asynccontextmanager
async def checking(farm: Farm, table: Table) -> AsyncIterator[MemberChecker]:
    checker = MemberChecker(table, table.changed)
    checker.open(farm)
    checker.start(farm)
    try:
        yield checker
    finally:
        checker.stop()
        await until(lambda: not checker._tasks)


def listening(address: str = "127.0.0.1", port: int = 0) -> socket.socket:
    return socket.create_server((address, port), backlog=256)


async def test_who_answers_stays_and_who_refuses_is_out(tmp_path: Path) -> None:
    with listening("127.0.0.2") as alive:
        port = alive.getsockname()[1]
        farm = farm_of(tmp_path, f'"tcp:{port}"', {"frodo": "127.0.0.2", "bilbo": "127.0.0.3"})
        table = Table(overdue("frodo", "bilbo"))
        before = table.readings["frodo.hobbit"]
        async with checking(farm, table) as checker:
            await until(lambda: checker.counts["web", "passed"] and checker.counts["web", "failed"])
            assert table.readings["frodo.hobbit"] is before
            assert table.readings["bilbo.hobbit"].failure("web") == f"tcp:{port}: connection refused"
            assert table.changes >= 1
            alive_again = listening("127.0.0.3", port)
            await until(lambda: not table.readings["bilbo.hobbit"].failed_checks)
            alive_again.close()


async def test_a_failed_check_is_repeated_although_no_other_report_is_due_soon(tmp_path: Path) -> None:
    with listening("127.0.0.2") as alive:
        port = alive.getsockname()[1]
        farm = farm_of(
            tmp_path, f'{{ target = "tcp:{port}", interval = 0.1 }}', {"frodo": "127.0.0.2", "bilbo": "127.0.0.3"}
        )
        now = time.monotonic()
        table = Table({f"{name}.hobbit": Reading(now, LONG, 50) for name in ("frodo", "bilbo")})
        async with checking(farm, table) as checker:
            # Both members have been looked at: the next report is overdue in twenty minutes
            await until(lambda: checker._schedule.next_due > now + LONG)
            table.replace("frodo.hobbit", replace(table.readings["frodo.hobbit"], alarm=WEB_SERVER_FAILED))
            checker.hurry(["frodo.hobbit"])
            await until(lambda: checker.counts["web", "passed"] >= 3)
            alive.close()
            await until(lambda: table.readings["frodo.hobbit"].failed_checks)


async def test_one_address_that_answers_is_enough(tmp_path: Path) -> None:
    with listening("127.0.0.3") as alive:
        farm = farm_of(tmp_path, f'"tcp:{alive.getsockname()[1]}"', {"frodo": "127.0.0.2 127.0.0.3"})
        table = Table(overdue("frodo"))
        async with checking(farm, table) as checker:
            await until(lambda: checker.counts["web", "passed"])
        assert not checker.counts["web", "failed"]


async def test_the_host_field_is_the_member_s_full_name(tmp_path: Path) -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 500 Oops\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.2", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        table = Table(overdue("frodo"))
        async with checking(farm_of(tmp_path, f'"http://:{port}/up"', {"frodo": "127.0.0.2"}), table):
            await until(lambda: table.readings["frodo.hobbit"].failed_checks)
    assert b"GET /up HTTP/1.1\r\nHost: frodo.hobbit:" in heads[0]
    assert table.readings["frodo.hobbit"].failure("web") == f"http://:{port}/up: status 500"


async def test_a_thousand_at_once_are_checked_a_few_at_a_time_and_the_pool_fails_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector's own network is out: every report is overdue and every check fails."""
    names = [f"m{i}" for i in range(1000)]
    farm = farm_of(tmp_path, '"tcp:80"', {name: f"127.1.{i // 250}.{i % 250 + 1}" for i, name in enumerate(names)})
    table = Table(overdue(*names))
    running = most = 0

    async def no_answer(self: MemberChecker, check: MemberCheck) -> ProbeResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return ProbeResult(False, "no answer within 0.3 s")

    monkeypatch.setattr(MemberChecker, "_probe", no_answer)
    async with checking(farm, table) as checker:
        await until(lambda: all(reading.failed_checks for reading in table.readings.values()))
        assert most <= member_checker.MAX_RUNNING
        assert checker.counts["web", "failed"] >= 1000
    now = time.monotonic()
    liveness = pool_liveness(farm.pools[0], Snapshot(1, table.readings), NO_OVERRIDES, now, 3.0)
    assert set(liveness.states) == {"silent"}
    assert liveness.candidates == tuple(range(1000))
    # Some pass again, or were never touched: too few are usable, and their silence began at the same time
    for name in names[:300]:
        table.readings[f"{name}.hobbit"] = replace(table.readings[f"{name}.hobbit"], failed_checks=())
    liveness = pool_liveness(farm.pools[0], Snapshot(2, table.readings), NO_OVERRIDES, now, 3.0)
    assert "stopped at the same time" in liveness.fail_open
    assert len(liveness.candidates) == 1000


async def test_other_tasks_run_while_a_thousand_members_are_checked(tmp_path: Path) -> None:
    names = [f"m{i}" for i in range(1000)]
    farm = farm_of(tmp_path, '"tcp:9"', {name: f"127.1.{i // 250}.{i % 250 + 1}" for i, name in enumerate(names)})
    table = Table(overdue(*names))
    turns = 0
    async with checking(farm, table):
        while not all(reading.failed_checks for reading in table.readings.values()):
            await asyncio.sleep(0)
            turns += 1
    assert turns > 1000 / member_checker.BATCH


async def test_an_alarm_is_checked_at_once(tmp_path: Path) -> None:
    farm = farm_of(tmp_path, '"tcp:9"', {"frodo": "127.0.0.2"})
    table = Table({"frodo.hobbit": Reading(time.monotonic(), LONG, 50, alarm="web server failed")})
    async with checking(farm, table) as checker:
        checker.hurry(["frodo.hobbit", "someone.else"])
        await until(lambda: table.readings["frodo.hobbit"].failed_checks)


async def test_paused_it_checks_nothing(tmp_path: Path) -> None:
    farm = farm_of(tmp_path, '"tcp:9"', {"frodo": "127.0.0.2"})
    table = Table(overdue("frodo"))
    async with checking(farm, table) as checker:
        checker.pause()
        checker.hurry(["frodo.hobbit"])
        await asyncio.sleep(0)
        assert not checker._tasks
        checker.resume(farm)
        await until(lambda: checker._tasks)
        checker.pause()  # while a check is running
        checker.resume(farm)
        await until(lambda: table.readings["frodo.hobbit"].failed_checks)


async def test_a_reload_drops_the_failures_of_checks_that_are_gone(tmp_path: Path) -> None:
    farm = farm_of(tmp_path, '"tcp:9"', {"frodo": "127.0.0.2"})
    table = Table(overdue("frodo"))
    async with checking(farm, table) as checker:
        await until(lambda: table.readings["frodo.hobbit"].failed_checks)
        checker.use(farm)
        assert table.readings["frodo.hobbit"].failed_checks
        checker.use(farm_of(tmp_path, '"off"', {"frodo": "127.0.0.2"}))
        assert not table.readings["frodo.hobbit"].failed_checks
        other = FailedCheck("other", "inherited from another process")
        table.readings["frodo.hobbit"] = replace(table.readings["frodo.hobbit"], failed_checks=(other,))
        checker.use(farm)
        assert other not in table.readings["frodo.hobbit"].failed_checks


async def test_a_check_that_breaks_is_logged_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    farm = farm_of(tmp_path, '{ target = "tcp:9", interval = 0.1 }', {"frodo": "127.0.0.2", "bilbo": "127.0.0.3"})
    table = Table(overdue("frodo", "bilbo"))

    async def broken(self: MemberChecker, check: MemberCheck) -> ProbeResult:
        if check.member == "frodo.hobbit":
            raise RuntimeError("a mistake in the program")
        return PASSED

    monkeypatch.setattr(MemberChecker, "_probe", broken)
    with caplog.at_level(logging.WARNING):
        async with checking(farm, table) as checker:
            await until(lambda: checker.counts["web", "passed"] > 2 and checker.counts["web", "not_made"] > 2)
    assert "frodo.hobbit could not be checked with tcp:9: unexpected error: RuntimeError" in caplog.text


async def test_what_cannot_be_checked_is_logged_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    farm = farm_of(tmp_path, '{ target = "tcp:9", interval = 0.1 }', {"frodo": "127.0.0.2"})
    table = Table(overdue("frodo"))

    async def unable(self: MemberChecker, check: MemberCheck) -> ProbeResult:
        return ProbeResult(None, "too many open files")

    monkeypatch.setattr(MemberChecker, "_probe", unable)
    with caplog.at_level(logging.WARNING):
        async with checking(farm, table) as checker:
            await until(lambda: checker.counts["web", "not_made"] >= 3)
    assert caplog.text.count("frodo.hobbit could not be checked with tcp:9: too many open files") == 1
    assert not table.readings["frodo.hobbit"].failed_checks
