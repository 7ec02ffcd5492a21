"""Rejected reports by source: what is shown, and that no flood can displace it or use more memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_collector.reports.rejected_reports import (
    ADVICE,
    MAX_EXPORTED,
    MAX_SENDERS,
    MAX_SHOWN,
    PERSISTENT,
    QUIET,
    RejectedReports,
)
from lbdns_shared.report import MAX_DATAGRAM, REASONS
from tests.collector.collector_fixtures import KEY, OTHER_KEY, WALL, datagram
from tests.collector.report_tables import NOW, accept, make

MEMBER = "192.0.2.1"


def flood(table: RejectedReports, count: int, start: float = WALL, seconds: float = 10.0) -> None:
    """Send one report from each of many addresses."""
    for n in range(count):
        table.note("bad_tag", datagram("frodo"), f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}", start + seconds * n / count)


def test_a_sender_is_described() -> None:
    table = RejectedReports({MEMBER})
    for at in (0.0, 1.0):
        table.note("unknown_host", datagram("gandlaf"), MEMBER, WALL + at)
    table.note("bad_tag", datagram("gandlaf", key=OTHER_KEY), MEMBER, WALL + 2)
    assert table.documents(WALL + 5) == [
        {
            "source": MEMBER, "host": "gandlaf", "key_id": OTHER_KEY.key_id.hex(), "member_address": True,
            "reason": "bad_tag", "advice": ADVICE["bad_tag"], "count": 3,
            "counts": {"unknown_host": 2, "bad_tag": 1}, "age_s": 3.0,
        }
    ]  # fmt: skip


def test_hosts_behind_one_address_are_told_apart() -> None:
    table = RejectedReports()
    for host in ("a", "b", "a"):
        table.note("bad_tag", datagram(host, key=None), "192.0.2.7", WALL)
    assert [(sender.host, sender.counts.total()) for sender in table.senders(WALL)] == [("a", 2), ("b", 1)]
    assert table.documents(WALL)[0]["key_id"] == ""


@pytest.mark.parametrize("source", [MEMBER, f"::ffff:{MEMBER}"])
def test_a_member_address_comes_first(source: str) -> None:
    table = RejectedReports({MEMBER})
    for _ in range(9):
        table.note("malformed", b"x", "198.51.100.1", WALL)
    table.note("bad_tag", datagram(), source, WALL)
    assert [sender.source for sender in table.senders(WALL)] == [source, "198.51.100.1"]


def test_quiet_senders_are_not_shown() -> None:
    table = RejectedReports()
    table.note("malformed", b"x", "198.51.100.1", WALL)
    assert table.documents(WALL + QUIET - 1)
    assert not table.documents(WALL + QUIET)


def test_a_flood_is_bounded_and_displaces_neither_members_nor_persistent_senders() -> None:
    table = RejectedReports({MEMBER})
    table.note("unknown_host", datagram("typo"), MEMBER, WALL)
    for at in range(3):
        table.note("bad_tag", datagram("frodo", key=OTHER_KEY), "198.51.100.7", WALL + at)
    flood(table, 20_000, WALL + 3)
    assert len(table._senders) == MAX_SENDERS
    assert len(table.documents(WALL + 13)) == MAX_SHOWN
    shown = [sender.source for sender in table.senders(WALL + 13)][:2]
    assert shown == [MEMBER, "198.51.100.7"]


def test_a_persistent_sender_appears_after_a_flood() -> None:
    table = RejectedReports()
    flood(table, 2000)
    for at in range(3):
        table.note("bad_tag", datagram("frodo", key=OTHER_KEY), "198.51.100.7", WALL + 20 + at)
    assert table.senders(WALL + 23)[0].source == "198.51.100.7"


def test_a_member_address_appears_during_a_flood() -> None:
    table = RejectedReports({MEMBER})
    flood(table, 2000)
    table.note("unknown_host", datagram("typo"), MEMBER, WALL + 10)
    assert table.senders(WALL + 10)[0].source == MEMBER


def test_time_series_are_few_and_do_not_change_with_a_flood() -> None:
    table = RejectedReports()
    names = [f"198.51.100.{n}" for n in range(MAX_EXPORTED + 5)]
    for at in (0.0, PERSISTENT):
        assert table.exported(WALL + at) == [], "in the first minute, none"
        for name in names:
            table.note("bad_tag", datagram(), name, WALL + at)
    now = WALL + PERSISTENT
    first = [sender.source for sender in table.exported(now)]
    assert len(first) == MAX_EXPORTED
    for n in range(50):
        for at in (0.0, PERSISTENT):
            table.note("bad_tag", datagram(), f"203.0.113.{n}", now + at)
    assert [sender.source for sender in table.exported(now + PERSISTENT)] == first
    assert first[0] not in [sender.source for sender in table.exported(now + QUIET)]


def test_time_series_do_not_change_with_a_flood_from_a_forged_member_address() -> None:
    table = RejectedReports({MEMBER})
    seen: set[str] = set()
    for n in range(20 * MAX_SENDERS):
        now = WALL + QUIET / 2 * n / (20 * MAX_SENDERS)
        table.note("unknown_host", datagram(f"x{n}"), MEMBER, now)
        if n % MAX_EXPORTED == 0:
            seen.update(sender.host for sender in table.exported(now))
    assert len(seen) == MAX_EXPORTED


def test_a_member_address_gets_a_time_series_at_once() -> None:
    table = RejectedReports({MEMBER})
    table.note("unknown_host", datagram("typo"), MEMBER, WALL)
    assert [sender.host for sender in table.exported(WALL)] == ["typo"]


def test_the_report_table_notes_every_rejected_report() -> None:
    table = make(KEY)
    assert accept(table, datagram("gandlaf"), "192.0.2.5") == "unknown_host"
    assert accept(table, datagram(key=OTHER_KEY), "192.0.2.5") == "bad_tag"
    assert accept(table, b"", "192.0.2.5") == "malformed"
    assert accept(table, datagram(), "192.0.2.5") == "accepted"
    found = {(sender.host, sender.reason) for sender in table.rejected.senders(WALL)}
    assert found == {("gandlaf", "unknown_host"), ("gandalf", "bad_tag"), ("", "malformed")}


def test_what_an_agent_is_told() -> None:
    table = make(KEY)
    accept(table, datagram("gandalf", boot=2**64 - 1), "192.0.2.1")
    accept(table, datagram("frodo", key=OTHER_KEY), "192.0.2.2")
    accept(table, datagram("typo"), "192.0.2.3", now=NOW + 1)
    good = table.host_document("gandalf", "192.0.2.1", WALL + 4)
    assert (good["known"], good["accepted_age_s"], good["boot"], good["rejected"]) == (True, 4.0, "f" * 16, [])
    bad = table.host_document("frodo", "192.0.2.2", WALL)
    assert (bad["known"], bad["accepted_age_s"], bad["boot"]) == (True, None, "")
    assert [each["reason"] for each in bad["rejected"]] == ["bad_tag"]
    unknown = table.host_document("other", "192.0.2.3", WALL)
    assert not unknown["known"]
    assert [each["host"] for each in unknown["rejected"]] == ["typo"], "found by its address"


@given(
    st.lists(
        st.tuples(st.sampled_from(REASONS), st.binary(max_size=300), st.integers(0, 2000), st.floats(-40, 40)),
        max_size=60,
    )
)
def test_any_datagrams_are_noted(sent: Sequence[tuple[str, bytes, int, float]]) -> None:
    table, now = RejectedReports({"10.0.0.1"}), WALL
    for reason, data, source, pause in sent:
        now += pause
        # The collector decides that a datagram is malformed, or too long, before it looks at the name
        is_whole = 9 <= len(data) <= MAX_DATAGRAM
        table.note(reason if is_whole else "malformed", b"LBR1" + data[4:], f"10.0.{source >> 8}.{source & 255}", now)
    assert len(table._senders) <= MAX_SENDERS
    assert len(table.documents(now)) <= MAX_SHOWN
    assert len(table.exported(now)) <= MAX_EXPORTED
