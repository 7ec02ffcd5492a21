"""Tests of the report table with reports from a bus: what stands for the source address, and duplicates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.bus.bus_state import BusState
from lbdns_collector.reports.bus_status import BusStatus
from lbdns_collector.reports.report_table import ReportTable
from lbdns_shared.bus_subject import host_in_subject, report_subject
from tests.collector.collector_fixtures import HOSTS, KEY, OTHER_KEY, WALL, datagram
from tests.collector.report_tables import NOW, accept, make


def with_bus(*, keyed: bool = True) -> ReportTable:
    table = make(KEY) if keyed else make()
    table.bus = BusStatus()
    return table


def receive(table: ReportTable, data: bytes, host: str = "gandalf") -> str:
    subject = report_subject("web", host)
    return table.accept(data, subject, NOW, WALL, host_in_subject(subject))


def test_a_report_from_the_bus() -> None:
    table = with_bus()
    assert receive(table, datagram("gandalf")) == "accepted"
    assert table.reading("gandalf.hobbit") is not None
    assert table.bus
    assert table.bus.counts == {"accepted": 1}


@pytest.mark.parametrize(
    ("data", "host", "reason"),
    [
        (datagram("gandalf"), "frodo", "wrong_subject"),
        (datagram("gandalf"), "", "wrong_subject"),
        (datagram("gandalf", key=None), "gandalf", "bad_tag"),
        (datagram("gandalf", key=OTHER_KEY), "gandalf", "bad_tag"),
        (datagram("gandalf", at=WALL - 31), "gandalf", "clock"),
        (datagram("nobody"), "nobody", "unknown_host"),
        (b"garbage", "gandalf", "malformed"),
        (bytes(1201), "gandalf", "too_long"),
    ],
)
def test_refusals(data: bytes, host: str, reason: str) -> None:
    table = with_bus()
    assert receive(table, data, host) == reason
    assert table.bus
    assert table.bus.counts == {reason: 1}
    [sender] = table.rejected.senders(WALL)
    assert (sender.source, sender.reason) == (report_subject("web", host), reason)


def test_an_unsigned_report_needs_an_address_so_a_bus_cannot_bring_it() -> None:
    table = with_bus(keyed=False)
    unsigned = datagram("gandalf", key=None)
    assert receive(table, unsigned) == "bad_tag"
    [address] = HOSTS["gandalf"].addresses
    assert table.accept(unsigned, address, NOW, WALL, "gandalf") == "bad_tag"
    assert accept(table, unsigned, address) == "accepted"


def test_a_report_that_arrives_on_both_paths_is_a_duplicate() -> None:
    table = with_bus()
    assert accept(table, datagram("gandalf", seq=1)) == "accepted"
    assert receive(table, datagram("gandalf", seq=1)) == "duplicate"
    assert receive(table, datagram("gandalf", seq=2)) == "accepted"
    assert accept(table, datagram("gandalf", seq=2)) == "duplicate"
    assert table.rejected.senders(WALL) == []


def test_a_late_path_is_no_replay() -> None:
    table = with_bus()
    for seq in (1, 2, 3):
        assert accept(table, datagram("gandalf", seq=seq)) == "accepted"
    assert [receive(table, datagram("gandalf", seq=seq)) for seq in (1, 2, 3)] == ["duplicate"] * 3


def test_a_report_that_is_repeated_on_its_path_is_a_replay() -> None:
    table = with_bus()
    first = datagram("gandalf", seq=1)
    assert accept(table, first) == "accepted"
    assert accept(table, first) == "replay"
    assert receive(table, first) == "duplicate"
    assert receive(table, first) == "replay"


def test_without_a_bus_nothing_is_a_duplicate() -> None:
    table = make(KEY)
    assert accept(table, datagram("gandalf", seq=2)) == "accepted"
    assert accept(table, datagram("gandalf", seq=1)) == "replay"


@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=30))
def test_no_report_counts_twice(arrivals: list[tuple[int, bool]]) -> None:
    """Whatever the order on the two paths: exactly the reports that are newer than all before them are accepted."""
    table, newest = with_bus(), 0
    for seq, is_from_bus in arrivals:
        data = datagram("gandalf", seq=seq)
        result = receive(table, data) if is_from_bus else accept(table, data)
        assert (result == "accepted") == (seq > newest)
        newest = max(newest, seq)


def test_the_status_contains_the_bus() -> None:
    status = BusStatus(BusState("nats://10.0.0.5:4222", ""))
    assert status.connected
    assert not BusStatus(BusState("", "gone")).connected
    assert status.document()["server"] == "nats://10.0.0.5:4222"
