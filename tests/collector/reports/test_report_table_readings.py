"""Tests of the report table: how reports become readings, and how reloads change the table."""

from __future__ import annotations

import pytest

from lbdns.model.farm import ReportingHost
from lbdns.model.snapshot import Reading
from lbdns.scores.score import Score, Term
from lbdns.scores.thesis import THESIS
from lbdns_collector.reports.report_table import ReportTable
from lbdns_shared.report import MIN_INTERVAL, Kind
from tests.collector.collector_fixtures import ADDRESSES, HOSTS, IDLE, KEY, OTHER_KEY, WALL, datagram
from tests.collector.report_tables import NOW, accept, make


def test_reading() -> None:
    table = make(KEY)
    accept(table, datagram(interval=2.5), now=NOW + 1)
    found = table.snapshot().readings["gandalf.hobbit"]
    assert (found.received, found.interval, found.score) == (NOW + 1, 2.5, 80)
    assert found.metrics == {**IDLE, "run_queue_per_core": 0.0}
    assert (found.alarm, found.gone) == ("", False)


@pytest.mark.parametrize("kind", ["data", "alarm", "bye"])
def test_a_longer_interval_than_allowed_counts_as_the_longest(kind: Kind) -> None:
    table = make(KEY)
    table.max_interval = 60.0
    accept(table, datagram(interval=2.5, seq=1))
    accept(table, datagram(interval=86_400.0, seq=2, kind=kind))
    assert table.snapshot().readings["gandalf.hobbit"].interval == 60.0
    handed_over = make(KEY)
    handed_over.max_interval = 5.0
    handed_over.restore(table.state(NOW), NOW)
    assert handed_over.snapshot().readings["gandalf.hobbit"].interval == 5.0


@pytest.mark.parametrize("kind", ["data", "alarm", "bye"])
def test_a_shorter_interval_than_possible_counts_as_the_shortest(kind: Kind) -> None:
    table = make(KEY)
    accept(table, datagram(interval=5e-324, kind=kind))
    assert table.snapshot().readings["gandalf.hobbit"].interval == MIN_INTERVAL
    older = table.state(NOW)
    older["readings"]["gandalf.hobbit"][1] = 5e-324
    handed_over = make(KEY)
    handed_over.restore(older, NOW)
    assert handed_over.snapshot().readings["gandalf.hobbit"].interval == MIN_INTERVAL


KINDS: list[tuple[str, list[tuple[Kind, str, dict[str, float]]], tuple[str, bool, int]]] = [
    ("alarm", [("data", "", IDLE), ("alarm", "swapping", {})], ("swapping", False, 80)),
    ("alarm without a word", [("data", "", IDLE), ("alarm", "", {})], ("alarm", False, 80)),
    ("alarm with metrics", [("data", "", IDLE), ("alarm", "x", {"cpu_idle": 50.0})], ("x", False, 49)),
    ("alarm first of all", [("alarm", "x", {})], ("x", False, 0)),
    ("data ends an alarm", [("alarm", "x", {}), ("data", "", IDLE)], ("", False, 80)),
    ("bye", [("data", "", IDLE), ("bye", "", {})], ("", True, 80)),
    ("bye with metrics", [("data", "", IDLE), ("bye", "", {"cpu_idle": 50.0})], ("", True, 49)),
    ("bye ends an alarm", [("alarm", "x", IDLE), ("bye", "", {})], ("", True, 80)),
    ("back after bye", [("bye", "", {}), ("data", "", IDLE)], ("", False, 80)),
    ("alarm after bye", [("bye", "", {}), ("alarm", "x", {})], ("x", False, 0)),
    ("nothing could be measured", [("data", "", IDLE), ("data", "", {})], ("", False, 0)),
]


@pytest.mark.parametrize(("reports", "expected"), [row[1:] for row in KINDS], ids=[row[0] for row in KINDS])
def test_kinds(reports: list[tuple[Kind, str, dict[str, float]]], expected: tuple[str, bool, int]) -> None:
    table = make(KEY)
    for seq, (kind, alarm, metrics) in enumerate(reports, 1):
        assert accept(table, datagram(seq=seq, kind=kind, alarm=alarm, metrics=metrics)) == "accepted"
    found = table.snapshot().readings["gandalf.hobbit"]
    assert (found.alarm, found.gone, found.score) == expected


def test_a_host_in_two_zones_reports_for_both() -> None:
    table = ReportTable({"gandalf": ReportingHost(("gandalf.hobbit", "gandalf.shire"), ())}, (KEY,), THESIS)
    accept(table, datagram())
    assert set(table.snapshot().readings) == {"gandalf.hobbit", "gandalf.shire"}


def test_snapshot_is_new_only_when_something_changed() -> None:
    table = make(KEY)
    empty = table.snapshot()
    assert (empty.version, table.snapshot() is empty) == (0, True)
    accept(table, datagram(seq=1))
    first = table.snapshot()
    assert first.version == 1
    accept(table, datagram(seq=1))
    accept(table, b"garbage")
    assert table.snapshot() is first
    accept(table, datagram("frodo"))
    second = table.snapshot()
    assert (second.version, set(first.readings)) == (2, {"gandalf.hobbit"})
    assert set(second.readings) == {"gandalf.hobbit", "frodo.hobbit"}


def test_skews() -> None:
    table = make(KEY)
    accept(table, datagram(at=WALL + 2.5))
    accept(table, datagram("frodo", at=WALL - 31))
    assert table.skews == {"gandalf": 2.5}


def test_reconfigure_keeps_remaining_hosts() -> None:
    table = make(KEY)
    for host in HOSTS:
        accept(table, datagram(host, seq=5))
    before = table.snapshot()
    table.reconfigure({name: HOSTS[name] for name in ("gandalf", "frodo")}, (KEY,), THESIS)
    after = table.snapshot()
    assert set(after.readings) == {"gandalf.hobbit", "frodo.hobbit"}
    assert after.readings["gandalf.hobbit"] is before.readings["gandalf.hobbit"]
    assert accept(table, datagram("gandalf", seq=5)) == "replay"
    assert accept(table, datagram("gandalf", seq=6)) == "accepted"
    assert accept(table, datagram("bilbo", seq=6)) == "unknown_host"


def test_reconfigure_without_a_change_publishes_nothing() -> None:
    table = make(KEY)
    accept(table, datagram())
    before = table.snapshot()
    table.reconfigure(HOSTS, (KEY,), THESIS)
    assert table.snapshot() is before


def test_members_that_get_or_lose_an_agent_begin_anew_and_the_others_keep_their_readings() -> None:
    table = make(KEY)
    for host in ("gandalf", "frodo"):
        accept(table, datagram(host))
    few = {name: HOSTS[name] for name in ("gandalf", "bilbo")}
    table.agentless = {"frodo.hobbit"}
    table.reconfigure(few, (KEY,), THESIS)
    assert set(table.snapshot().readings) == {"gandalf.hobbit"}
    assert accept(table, datagram("frodo", seq=2)) == "unknown_host"
    checked = Reading(NOW, 100.0, None)
    table.replace("frodo.hobbit", checked)
    table.reconfigure(few, (KEY,), Score({"run_queue": Term(1.0, 10.0, "low")}))
    assert table.snapshot().readings["frodo.hobbit"] is checked
    successor = make(KEY)
    successor.agentless, successor.max_interval = {"frodo.hobbit"}, 60.0
    successor.restore(table.state(NOW), NOW)
    assert successor.snapshot().readings["frodo.hobbit"] == checked
    table.agentless = ()
    table.reconfigure(HOSTS, (KEY,), THESIS)
    assert set(table.snapshot().readings) == {"gandalf.hobbit"}


def test_reconfigure_keys() -> None:
    table = make(KEY)
    assert accept(table, datagram(seq=1)) == "accepted"
    table.reconfigure(HOSTS, (OTHER_KEY,), THESIS)
    assert accept(table, datagram(seq=2)) == "bad_tag"
    assert accept(table, datagram(seq=2, key=OTHER_KEY)) == "accepted"
    table.reconfigure(HOSTS, (), THESIS)
    assert accept(table, datagram(seq=3, key=OTHER_KEY)) == "bad_tag"
    assert accept(table, datagram(seq=3, key=OTHER_KEY), source=ADDRESSES["gandalf"]) == "accepted"


def test_reconfigure_addresses() -> None:
    table = make()
    assert accept(table, datagram(seq=1), source=ADDRESSES["gandalf"]) == "accepted"
    table.reconfigure({"gandalf": ReportingHost(("gandalf.hobbit",), ("192.0.2.77",))}, (), THESIS)
    assert accept(table, datagram(seq=2), source=ADDRESSES["gandalf"]) == "bad_tag"
    assert accept(table, datagram(seq=2), source="192.0.2.77") == "accepted"


def test_reconfigure_weighs_anew() -> None:
    table = make(KEY)
    accept(table, datagram())
    before = table.snapshot()
    table.reconfigure(HOSTS, (KEY,), Score({"cpu_idle": Term(7, 100, "high")}))
    after = table.snapshot()
    assert after.version == before.version + 1
    assert (before.readings["gandalf.hobbit"].score, after.readings["gandalf.hobbit"].score) == (80, 7)
