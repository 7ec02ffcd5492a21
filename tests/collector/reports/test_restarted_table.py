"""A restart of the collector, as seen by the report table: which reports are still rejected as replays."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.scores.thesis import THESIS
from lbdns_collector.reports.report_table import ReportTable
from lbdns_collector.reports.reporting_peer import MAX_REPLACED, MAX_SKEW
from tests.collector.collector_fixtures import HOSTS, KEY, OTHER_KEY, WALL, datagram
from tests.collector.report_tables import NOW, accept, make

LATER = 100.0  # monotonic seconds of the restarted process


def plain(value: object) -> Any:
    """Return plain data as another process reads it."""
    return msgpack.unpackb(msgpack.packb(value), strict_map_key=False)


def restarted(table: ReportTable, now: float = LATER, wall: float = WALL) -> ReportTable:
    """Return the table of a new process that has read what the old process wrote."""
    new = make(KEY)
    assert new.remember(plain(table.records(wall)), now, wall) == 0
    return new


def test_a_recorded_report_is_rejected_after_a_restart() -> None:
    old = make(KEY)
    recorded = [datagram(seq=seq, at=WALL + seq) for seq in (4, 5)]
    assert [accept(old, report) for report in recorded] == ["accepted"] * 2
    new = restarted(old)
    assert [accept(new, report, now=LATER) for report in recorded] == ["replay"] * 2
    assert accept(new, datagram(seq=6), now=LATER) == "accepted"


def test_an_agent_that_restarted_meanwhile_is_accepted() -> None:
    old = make(KEY)
    accept(old, datagram(boot=7, seq=900, at=WALL))
    new = restarted(old)
    assert accept(new, datagram(boot=8, seq=1, at=WALL + 1), now=LATER) == "accepted"


def test_a_replaced_boot_stays_rejected() -> None:
    old = make(KEY)
    accept(old, datagram(boot=7, seq=1, at=WALL))
    accept(old, datagram(boot=8, seq=1, at=WALL + 1))
    assert accept(restarted(old), datagram(boot=7, seq=2, at=WALL + 2), now=LATER) == "replay"


def test_a_member_that_said_bye_stays_silent() -> None:
    old = make(KEY)
    report = datagram(seq=1)
    accept(old, report)
    accept(old, datagram(seq=2, kind="bye", metrics={}))
    new = restarted(old, LATER, WALL + 20)
    assert accept(new, report, now=LATER, wall=WALL + 20) == "replay"
    reading = new.snapshot().readings["gandalf.hobbit"]
    assert reading.gone
    assert reading.received == pytest.approx(LATER - 20)


def test_a_member_that_reports_has_no_reading_after_a_restart() -> None:
    """The load of a host before the restart is not known to be its load now."""
    old = make(KEY)
    accept(old, datagram())
    assert not restarted(old).snapshot().readings


def test_clock_skews_are_unknown_after_a_restart() -> None:
    old = make(KEY)
    accept(old, datagram(at=WALL + 2.5))
    new = restarted(old)
    assert new.skews == {}
    accept(new, datagram(seq=2, at=WALL + 2.5), now=LATER)
    assert new.skews == {"gandalf": 2.5}


def test_reports_to_this_process_count_for_more() -> None:
    old, new = make(KEY), make(KEY)
    accept(old, datagram(seq=5))
    accept(new, datagram(seq=9))
    new.remember(old.records(WALL), NOW, WALL)
    assert accept(new, datagram(seq=7)) == "replay"


def test_a_forged_report_does_not_displace_the_memory() -> None:
    old, new = make(KEY), make(KEY)
    accept(old, datagram(seq=5))
    assert accept(new, datagram(seq=1, key=OTHER_KEY)) == "bad_tag"
    new.remember(old.records(WALL), NOW, WALL)
    assert accept(new, datagram(seq=5)) == "replay"


def test_a_collector_clock_that_was_ahead_locks_no_agent_out() -> None:
    old = make(KEY)
    ahead = WALL + 3600
    accept(old, datagram(boot=7, seq=1, at=ahead), wall=ahead)
    accept(old, datagram(boot=8, seq=1, at=ahead + 1), wall=ahead)
    new = restarted(old)
    late = WALL + 2 * MAX_SKEW + 1
    assert accept(new, datagram(boot=9, at=late), now=LATER, wall=late) == "accepted"


def test_a_removed_host_that_returns_is_remembered() -> None:
    table = make(KEY)
    accept(table, datagram("gandalf", seq=5))
    few = {name: host for name, host in HOSTS.items() if name != "gandalf"}
    table.reconfigure(few, (KEY,), THESIS)
    table = restarted(table)
    table.reconfigure(few, (KEY,), THESIS)
    table.reconfigure(HOSTS, (KEY,), THESIS)
    assert accept(table, datagram("gandalf", seq=5), now=LATER) == "replay"
    assert accept(table, datagram("gandalf", seq=6), now=LATER) == "accepted"


def test_removed_hosts_are_forgotten_after_an_hour() -> None:
    table = make(KEY)
    accept(table, datagram("gandalf", seq=5))
    table.reconfigure({}, (KEY,), THESIS)
    assert table.records(WALL + 60).keys() == {"gandalf"}
    assert not table.records(WALL + 3700)


def test_a_take_over_passes_everything_on() -> None:
    old, new = make(KEY), make(KEY)
    accept(old, datagram("gandalf", seq=5, kind="bye"))
    accept(old, datagram("frodo", seq=1))
    old.reconfigure({name: host for name, host in HOSTS.items() if name != "frodo"}, (KEY,), THESIS)
    new.restore(plain(old.state(NOW)), LATER)
    assert new.records(WALL) == old.records(WALL)


def test_a_take_over_from_an_older_version() -> None:
    old, new = make(KEY), make(KEY)
    accept(old, datagram(seq=5))
    state = old.state(NOW)
    del state["records"]
    new.restore(state, LATER)
    assert accept(new, datagram(seq=5), now=LATER) == "replay"


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {},
        "xx",
        [[7, 1, WALL, WALL, False]],
        [[7, 1, WALL, WALL], {}],
        [[-1, 1, WALL, WALL, False], {}],
        [[2**64, 1, WALL, WALL, False], {}],
        [[7.0, 1, WALL, WALL, False], {}],
        [[7, True, WALL, WALL, False], {}],
        [[7, 1, float("nan"), WALL, False], {}],
        [[7, 1, WALL, float("inf"), False], {}],
        [[7, 1, WALL, WALL, 0], {}],
        [[7, 1, WALL, WALL, False], {"x": WALL}],
        [[7, 1, WALL, WALL, False], {1: "x"}],
        [[7, 1, WALL, WALL, False], [1]],
        [[7, 1, WALL, WALL, False], 5],
    ],
)
def test_an_invalid_record_is_ignored(record: Any) -> None:
    table = make(KEY)
    assert table.remember({"gandalf": record, "frodo": [[7, 3, WALL, WALL, False], {}]}, NOW, WALL) == 1
    assert accept(table, datagram("gandalf", seq=1)) == "accepted"
    assert accept(table, datagram("frodo", seq=3)) == "replay"


def test_many_records_use_little_memory() -> None:
    table = make(KEY)
    boots = dict.fromkeys(range(10 * MAX_REPLACED), WALL)
    table.remember({"gandalf": [[7, 1, WALL, WALL, False], boots]}, NOW, WALL)
    table.remember({f"x{n}": [[7, 1, WALL, WALL, False], {}] for n in range(12_000)}, NOW, WALL)
    assert len(table.records(WALL)) == 10_001
    assert len(table.records(WALL)["gandalf"][1]) == MAX_REPLACED


@dataclasses.dataclass(frozen=True)
class Step:
    """A report that arrives ``pause`` seconds after the last one, with a clock that is ``skew`` seconds ahead."""

    boot: int
    seq: int
    pause: float
    skew: float
    restart: bool


STEPS = st.lists(
    st.builds(
        Step, st.integers(0, 3), st.integers(1, 5), st.floats(0, 40), st.floats(-MAX_SKEW, MAX_SKEW), st.booleans()
    ),
    max_size=40,
)


@given(STEPS)
def test_restarts_change_no_decision(steps: Sequence[Step]) -> None:
    """Whatever reports arrive, and whenever the collector restarts, each report is judged as without restarts."""
    one, other, now = make(KEY), make(KEY), 0.0
    for step in steps:
        now += step.pause
        wall = WALL + now
        report = datagram(boot=step.boot, seq=step.seq, at=wall + step.skew)
        if step.restart:
            other = restarted(other, now, wall)
        assert accept(other, report, now=now, wall=wall) == accept(one, report, now=now, wall=wall)
