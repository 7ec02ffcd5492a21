"""Tests of the report table with hosts that join: forged, foreign and replayed reports make nobody a member."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.model.farm import Farm
from lbdns.model.joined_members import NO_JOINED_MEMBERS, JoinedMembers, with_joined
from lbdns.scores.thesis import THESIS
from lbdns_collector.joining.join_requests import JoinRequests
from lbdns_collector.reports.bus_status import BusStatus
from lbdns_collector.reports.report_reader import NativeReportReader
from lbdns_collector.reports.report_table import ReportTable
from tests.collector.collector_fixtures import KEY, OTHER_KEY, WALL
from tests.collector.joining.joining_farms import joinable, report_of, signed
from tests.needs import needs

NOW = 1000.0
SOURCE = "10.0.0.7"


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    return joinable(tmp_path_factory.mktemp("farm"))


def table_of(farm: Farm, joined: JoinedMembers = NO_JOINED_MEMBERS) -> ReportTable:
    table = ReportTable(with_joined(farm, joined)[0].hosts, (KEY,), THESIS)
    table.joins = JoinRequests(farm, joined)
    return table


def use(table: ReportTable, farm: Farm, joined: JoinedMembers) -> None:
    assert table.joins
    table.joins.use(farm, joined)
    table.reconfigure(with_joined(farm, joined)[0].hosts, (KEY,), THESIS)


def requested(table: ReportTable) -> list[str]:
    assert table.joins
    return [member.name for member in table.joins.requested]


def test_the_first_report_requests_and_is_stored(farm: Farm) -> None:
    table = table_of(farm)
    assert table.accept(signed(report_of()), SOURCE, NOW, WALL) == "accepted"
    assert requested(table) == ["web-1"]
    use(table, farm, JoinedMembers(tuple(table.joins.requested if table.joins else ())))
    assert table.reading("web-1.hobbit") is not None
    assert table.accept(signed(report_of(seq=2)), SOURCE, NOW + 1, WALL + 1) == "accepted"
    assert requested(table) == []


def test_a_host_that_asks_during_a_change_keeps_its_reading(farm: Farm) -> None:
    table = table_of(farm)
    table.accept(signed(report_of("web-1")), SOURCE, NOW, WALL)
    first = JoinedMembers(tuple(table.joins.requested if table.joins else ()))
    table.accept(signed(report_of("web-2")), "10.0.0.8", NOW, WALL)
    use(table, farm, first)
    assert requested(table) == ["web-2"]
    assert table.reading("web-2.hobbit") is not None
    assert table.accept(signed(report_of("web-2")), "10.0.0.8", NOW, WALL) == "replay"


@pytest.mark.parametrize(
    ("datagram", "reason"),
    [
        (signed(report_of(), key=None), "bad_tag"),
        (signed(report_of(), key=OTHER_KEY), "bad_tag"),
        (signed(report_of(), host="web-2"), "bad_tag"),  # another host's key
        (signed(report_of("gandalf"), host="web-1"), "bad_tag"),
        (signed(report_of("mail-1")), "unknown_host"),
        (signed(report_of(at=WALL - 31)), "clock"),
        (signed(report_of("web-zone")), "join_name"),
        (signed(report_of(pool="wob")), "join_pool"),
        (signed(report_of(addresses=["10.0.0.9"])), "join_address"),
    ],
)
def test_whoever_may_not_join_leaves_no_trace(farm: Farm, datagram: bytes, reason: str) -> None:
    table = table_of(farm)
    before = table.state(NOW)
    for _ in range(3):
        assert table.accept(datagram, SOURCE, NOW, WALL) == reason
    assert requested(table) == []
    after = table.state(NOW)
    assert (after["peers"].keys() - {"gandalf"}, after["records"], after["readings"]) == (set(), {}, before["readings"])


def test_without_keys_nobody_joins(farm: Farm) -> None:
    table = ReportTable(farm.hosts, (), THESIS)
    table.joins = JoinRequests(farm)
    assert table.accept(signed(report_of(), key=None), SOURCE, NOW, WALL) == "unknown_host"


def test_a_replay_from_another_address_moves_nobody(farm: Farm) -> None:
    table = table_of(farm)
    first = signed(report_of())
    table.accept(first, SOURCE, NOW, WALL)
    assert table.accept(first, "10.0.0.66", NOW, WALL) == "replay"
    assert table.accept(signed(report_of(seq=2)), "10.0.0.66", NOW + 1, WALL + 1) == "join_address", "too soon"
    assert table.accept(signed(report_of(seq=3)), "10.0.0.66", NOW + 11, WALL + 11) == "accepted", "it has moved"
    assert [member.addresses for member in (table.joins.requested if table.joins else ())] == [("10.0.0.66",)]


def test_the_replay_of_a_host_that_has_left(farm: Farm) -> None:
    """Also the records of hosts that have left reject replays, so an attacker cannot bring them back."""
    table = table_of(farm)
    recorded = [signed(report_of(seq=1)), signed(report_of(seq=2, kind="bye"))]
    for each in recorded:
        table.accept(each, SOURCE, NOW, WALL)
    use(table, farm, JoinedMembers(tuple(table.joins.requested if table.joins else ())))
    use(table, farm, NO_JOINED_MEMBERS)
    assert table.reading("web-1.hobbit") is None
    assert [table.accept(each, SOURCE, NOW, WALL) for each in recorded] == ["replay", "replay"]
    assert requested(table) == []
    assert table.accept(signed(report_of(boot=8, at=WALL + 1)), SOURCE, NOW + 1, WALL + 1) == "accepted"
    assert requested(table) == ["web-1"]


def test_a_joined_host_must_keep_to_the_rules(farm: Farm) -> None:
    table = table_of(farm)
    table.accept(signed(report_of()), SOURCE, NOW, WALL)
    use(table, farm, JoinedMembers(tuple(table.joins.requested if table.joins else ())))
    assert table.accept(signed(report_of(seq=2)), "192.0.2.1", NOW + 1, WALL + 1) == "join_address"
    reading = table.reading("web-1.hobbit")
    assert reading
    assert reading.received == NOW


def test_members_of_the_configuration_ignore_what_joins(farm: Farm) -> None:
    table = table_of(farm)
    report = signed(report_of("gandalf", pool="nothing", addresses=["192.0.2.1"]))
    assert table.accept(report, "192.0.2.200", NOW, WALL) == "accepted"
    assert requested(table) == []


def test_after_a_restart_a_joined_host_is_known(farm: Farm, tmp_path: Path) -> None:
    old = table_of(farm)
    first = signed(report_of())
    old.accept(first, SOURCE, NOW, WALL)
    joined = JoinedMembers(tuple(old.joins.requested if old.joins else ()))
    new = table_of(farm, joined)
    new.remember(old.records(WALL), NOW, WALL)
    assert new.accept(first, SOURCE, NOW, WALL) == "replay"
    assert new.accept(signed(report_of(seq=2)), SOURCE, NOW, WALL) == "accepted"
    assert requested(new) == []


_HOSTS = st.sampled_from(["web-1", "web-2", "web-zone", "gandalf", "mail-1"])


@settings(max_examples=200)
@given(st.data())
def test_an_agent_speaks_for_its_own_name_alone(farm: Farm, data: st.DataObject) -> None:
    """A host that owns one agent key sends anything; only its own name can join, and no other reading changes."""
    owner = data.draw(st.sampled_from(["web-1", "web-2"]))
    table = table_of(farm)
    for seq in range(1, 4):
        host = data.draw(_HOSTS)
        report = report_of(
            host,
            pool=data.draw(st.sampled_from(["", "web", "x"])),
            addresses=data.draw(st.lists(st.sampled_from(["10.0.0.7", "10.0.0.8", "192.0.2.1"]), max_size=2)),
            seq=seq,
            kind=data.draw(st.sampled_from(["data", "alarm", "bye"])),
        )
        table.accept(signed(report, host=owner), data.draw(st.sampled_from([SOURCE, "10.0.0.8"])), NOW, WALL)
    assert set(requested(table)) <= {owner}
    assert set(table.members()) <= {f"{owner}.hobbit"}
    assert set(table.records(-math.inf)) <= {owner}


@needs(native=True)
def test_the_acceptor_takes_a_joined_host_while_its_request_stays_the_same(farm: Farm) -> None:
    table = table_of(farm)
    table.use_reader(NativeReportReader())
    table.bus = BusStatus()

    def accept(seq: int, *addresses: str) -> bool:
        """Return whether the acceptor takes the report; otherwise, the table must accept it."""
        later = 100.0 * seq  # addresses may change rarely
        data = signed(report_of(seq=seq, at=WALL + later, addresses=addresses))
        assert table.acceptor is not None
        target = table._target(is_from_bus=True)
        assert target
        if table.acceptor.accept(data, "web-1", NOW + later, WALL + later, target):
            return True
        assert table.accept(data, "lbdns.report.-.web-1", NOW + later, WALL + later, "web-1") == "accepted"
        return False

    taken = [accept(seq, "10.0.0.7") for seq in (1, 2, 3, 4)]
    assert taken == [False, False, True, True], "the key of a host that has just joined is not known yet"
    assert [accept(5, "10.0.0.8"), accept(6, "10.0.0.8"), accept(7, "10.0.0.7")] == [False, True, False]
    reading = table.reading("web-1.hobbit")
    assert reading
    assert reading.received == NOW + 700
