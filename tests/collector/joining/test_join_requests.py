"""Tests of join requests: which authentic reports make a host a member, and which never do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.model.farm import Farm
from lbdns.model.joined_members import NO_JOINED_MEMBERS, JoinedMember, with_joined
from lbdns_collector.joining.join_requests import JOIN_REASONS, JoinRequests
from lbdns_shared.errors import ReportError
from lbdns_shared.report import REASONS
from tests.collector.joining.joining_farms import joinable, report_of

NOW = 1000.0
API = """\
[[pool]]
name = "api"
zone = "hobbit"
names = { api = "best" }
join = { names = "web-api-*", networks = ["10.9.0.0/16"] }
"""


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    return joinable(tmp_path_factory.mktemp("farm"), API)


def test_every_reason_is_a_reason_of_reports() -> None:
    assert REASONS[-len(JOIN_REASONS) :] == JOIN_REASONS


def test_a_host_joins(farm: Farm) -> None:
    joins = JoinRequests(farm)
    wanted, full_name = joins.judge(report_of(pool="web"), "10.0.0.7", NOW)
    assert (wanted, full_name) == (JoinedMember("web", "web-1", ("10.0.0.7",)), "web-1.hobbit")
    joins.request(wanted, NOW)
    assert list(joins.requested) == [wanted]
    assert joins.is_requested("web-1.hobbit")
    joins.use(farm, NO_JOINED_MEMBERS.changed(put=[wanted]))
    assert list(joins.requested) == [], "it is in force"
    joins.request(wanted, NOW)
    assert list(joins.requested) == []


def test_the_full_name_is_accepted(farm: Farm) -> None:
    wanted, full_name = JoinRequests(farm).judge(report_of("web-1.hobbit"), "10.0.0.7", NOW)
    assert (wanted.name, full_name) == ("web-1", "web-1.hobbit")


@pytest.mark.parametrize(
    ("host", "matches"),
    [("web-1", True), ("web-1.hobbit", True), ("gandalf", False), ("web", False), ("mail-1", False)],
)
def test_names_that_may_join(farm: Farm, host: str, matches: bool) -> None:
    assert JoinRequests(farm).may_join(host) is matches


@pytest.mark.parametrize(
    ("host", "pool", "addresses", "source", "reason"),
    [
        ("web-1", "wob", (), "10.0.0.7", "join_pool"),
        ("web-api-1", "", (), "10.9.0.7", "join_pool"),  # fits both pools
        ("web-1", "api", (), "10.9.0.7", "join_name"),
        ("web-zone", "", (), "10.0.0.7", "join_name"),
        ("web-1.web-sub", "", (), "10.0.0.7", "join_name"),
        ("web-1", "", (), "192.0.2.7", "join_address"),
        ("web-1", "", ("10.0.0.7", "192.0.2.7"), "10.0.0.7", "join_address"),
        ("web-1", "", ("10.0.0.7",), "10.0.0.8", "join_address"),
        ("web-1", "", ("frodo",), "10.0.0.8", "join_address"),
        ("web-1", "", ("0.0.0.0",), "10.0.0.8", "join_address"),
    ],
)
def test_refusals(farm: Farm, host: str, pool: str, addresses: Sequence[str], source: str, reason: str) -> None:
    with pytest.raises(ReportError) as error:
        JoinRequests(farm).judge(report_of(host, pool=pool, addresses=addresses), source, NOW)
    assert error.value.reason == reason


def test_no_more_than_max(farm: Farm) -> None:
    in_force = [JoinedMember("web", f"web-{n}", (f"10.0.1.{n}",)) for n in (1, 2)]
    joins = JoinRequests(farm, NO_JOINED_MEMBERS.changed(put=in_force))
    third, _ = joins.judge(report_of("web-3"), "10.0.1.3", NOW)
    joins.request(third, NOW)
    with pytest.raises(ReportError) as error:
        joins.judge(report_of("web-4"), "10.0.1.4", NOW)
    assert error.value.reason == "join_full"
    assert joins.judge(report_of("web-1"), "10.0.1.1", NOW)[0] == in_force[0], "members stay"
    assert joins.judge(report_of("web-3"), "10.0.1.33", NOW + 10)[0].addresses == ("10.0.1.33",), "addresses may change"


def test_addresses_change_at_a_limited_pace(farm: Farm) -> None:
    """A host that changes its addresses all the time would make the server rebuild its answers all the time."""
    joins = JoinRequests(farm)
    joins.request(joins.judge(report_of(), "10.0.0.7", NOW)[0], NOW)
    for later in (0.0, 5.0, 9.9):
        with pytest.raises(ReportError, match="last changed its addresses less than 10 s ago") as error:
            joins.judge(report_of(), "10.0.0.8", NOW + later)
        assert error.value.reason == "join_address"
        assert joins.judge(report_of(), "10.0.0.7", NOW + later)[0].addresses == ("10.0.0.7",)
    joins.request(joins.judge(report_of(), "10.0.0.8", NOW + 10.0)[0], NOW + 10.0)
    assert [member.addresses for member in joins.requested] == [("10.0.0.8",)]
    joins.use(farm, NO_JOINED_MEMBERS.changed(put=joins.requested))
    with pytest.raises(ReportError, match="less than 10 s ago"):
        joins.judge(report_of(), "10.0.0.7", NOW + 15.0)


def test_a_host_is_in_one_pool_of_a_zone(farm: Farm) -> None:
    joins = JoinRequests(farm)
    joins.request(joins.judge(report_of("web-api-1", pool="api"), "10.9.0.1", NOW)[0], NOW)
    with pytest.raises(ReportError, match="already joined pool api") as error:
        joins.judge(report_of("web-api-1", pool="web"), "10.9.0.1", NOW)
    assert error.value.reason == "join_name"


def test_a_reload_drops_requests_that_no_longer_fit(farm: Farm, tmp_path: Path) -> None:
    joins = JoinRequests(farm)
    joins.request(joins.judge(report_of("web-1"), "10.0.0.7", NOW)[0], NOW)
    other = 'join = { names = "web-*", networks = ["192.0.2.0/24"] }'
    joins.use(joinable(tmp_path, join=other), NO_JOINED_MEMBERS)
    assert list(joins.requested) == []
    assert not joins.is_requested("web-1.hobbit")


_LABELS = st.sampled_from(["web-1", "web-zone", "gandalf", "ns", "web-sub", "best", "api", "web-api-1", "a.web-sub"])
_ADDRESSES = st.sampled_from(["10.0.0.1", "10.9.0.1", "192.0.2.1", "2001:db8::1", "::1", "224.0.0.1", "x", ""])


@settings(max_examples=300)
@given(
    host=_LABELS,
    pool=st.sampled_from(["", "web", "api", "x"]),
    addresses=st.lists(_ADDRESSES, max_size=3),
    source=st.sampled_from(["10.0.0.1", "10.9.0.1", "192.0.2.1", "2001:db8::1"]),
)
def test_no_report_replaces_a_name_of_the_zone(
    farm: Farm, host: str, pool: str, addresses: list[str], source: str
) -> None:
    """Whatever a host sends, it gets only a new name, with addresses from the networks, one of them the source."""
    try:
        wanted, _ = JoinRequests(farm).judge(report_of(host, pool=pool, addresses=addresses), source, NOW)
    except ReportError:
        return
    after, refused = with_joined(farm, NO_JOINED_MEMBERS.changed(put=[wanted]))
    assert refused == []
    assert source in wanted.addresses
    assert wanted.name not in ("web-zone", "gandalf", "ns", "best", "api")
    for origin, zone in farm.zones.items():
        assert {owner: after.zones[origin].nodes[owner] for owner in zone.nodes} == dict(zone.nodes)
