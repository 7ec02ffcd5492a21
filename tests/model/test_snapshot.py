"""Tests of snapshots: which members have changed between two snapshots, with and without recorded changes."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.model.snapshot import EMPTY_SNAPSHOT, Reading, ReadingChanges, Snapshot, changed_members
from lbdns_collector.reports.report_table import ReportTable
from tests.collector.collector_fixtures import HOSTS, KEY, WALL, datagram
from tests.collector.report_tables import NOW, make


def report(table: ReportTable, host: str, seq: int) -> None:
    table.accept(datagram(host=host, seq=seq), "192.0.2.1", NOW + seq, WALL)


hosts = st.sampled_from(["gandalf", "frodo"])


@given(st.lists(st.lists(hosts, max_size=3), max_size=8), st.integers(0, 8), st.booleans())
def test_recorded_changes_are_those_that_a_comparison_finds(
    batches: Sequence[Sequence[str]], first: int, reloads: bool
) -> None:
    table, seq = make(KEY), 0
    snapshots = [table.snapshot()]
    for batch in batches:
        for host in batch:
            report(table, host, seq := seq + 1)
        if reloads:
            table.reconfigure({name: HOSTS[name] for name in batch if name in HOSTS} or HOSTS, [KEY], table.score)
        snapshots.append(table.snapshot())
    before, after = snapshots[min(first, len(snapshots) - 1)], snapshots[-1]
    compared = changed_members(Snapshot(1, before.readings), Snapshot(2, after.readings))
    assert set(changed_members(before, after)) == set(compared)


@pytest.mark.parametrize("before", [EMPTY_SNAPSHOT, Snapshot(1, {}, ReadingChanges(["gandalf"]))])
def test_snapshots_of_different_sources_are_compared(before: Snapshot) -> None:
    after = Snapshot(7, {"frodo": Reading(NOW, 1.0, 5)}, ReadingChanges())
    assert changed_members(before, after) == ["frodo"]


def test_changes_that_nobody_holds_are_freed() -> None:
    table = make(KEY)
    held = [table.snapshot()]
    for seq in range(1, 200):
        report(table, "gandalf", seq)
        held[0] = table.snapshot()
        assert held[0].readings["gandalf.hobbit"].received == NOW + seq
    assert sum(isinstance(each, ReadingChanges) for each in gc.get_objects()) < 100
