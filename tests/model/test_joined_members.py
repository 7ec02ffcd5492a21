"""Tests of joined members, and of the farm that includes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.model.joined_members import (
    NO_JOINED_MEMBERS,
    JoinedMember,
    JoinedMembers,
    host_addresses,
    read_joined_member,
    with_joined,
)
from lbdns.zones import names
from lbdns.zones.master_file import AAAA, A
from tests.collector.joining.joining_farms import joinable

ONE = JoinedMember("web", "web-1", ("10.0.0.7",))
TWO = JoinedMember("web", "web-2", ("10.0.0.8", "2001:db8::8"))


def joined(*members: JoinedMember) -> JoinedMembers:
    return NO_JOINED_MEMBERS.changed(put=members)


def test_the_farm_includes_joined_members(tmp_path: Path) -> None:
    configured = joinable(tmp_path)
    farm, refused = with_joined(configured, joined(TWO, ONE))
    assert refused == []
    (pool,) = farm.pools
    assert [(m.name, m.full_name, m.joined) for m in pool.members] == [
        ("gandalf", "gandalf.hobbit", False), ("web-1", "web-1.hobbit", True), ("web-2", "web-2.hobbit", True),
    ]  # fmt: skip
    (zone,) = farm.zones.values()
    assert pool.zone is zone
    node = zone.nodes[names.from_text("web-2.hobbit")]
    assert {rtype: rrset.ttl for rtype, rrset in node.items()} == {A: 0, AAAA: 0}
    assert farm.hosts["web-1"] == farm.hosts["web-1.hobbit"]
    assert farm.hosts["web-1"].joined
    assert not farm.hosts["gandalf"].joined
    assert farm.hosts["web-2"].addresses == ("10.0.0.8", "2001:db8::8")
    assert [len(pool.members) for pool in configured.pools] == [1], "the configured farm does not change"
    assert names.from_text("web-2.hobbit") not in next(iter(configured.zones.values())).nodes


def test_no_joined_members_no_change(tmp_path: Path) -> None:
    farm = joinable(tmp_path)
    assert with_joined(farm, NO_JOINED_MEMBERS) == (farm, [])


@pytest.mark.parametrize(
    ("member", "why"),
    [
        (JoinedMember("mail", "web-1", ("10.0.0.7",)), "there is no pool 'mail'"),
        (JoinedMember("web", "mail-1", ("10.0.0.7",)), "does not match the names that may join pool web"),
        (JoinedMember("web", "web-zone", ("10.0.0.7",)), "'web-zone' already has records in the zone file"),
        (JoinedMember("web", "web-best", ("10.0.0.7",)), "'web-best' is the name of a pool"),
        (JoinedMember("web", "web-1.web-sub", ("10.0.0.7",)), "lies at or below the delegation"),
        (JoinedMember("web", "web-1.web-moved", ("10.0.0.7",)), "lies below the DNAME"),
        (JoinedMember("web", "web-1", ("10.0.0.7", "192.0.2.1")), "192.0.2.1 is not in a network"),
        (JoinedMember("web", "web-" + "a." * 130 + "b", ("10.0.0.7",)), "too long for a name"),
        (JoinedMember("api", "web-1", ("10.0.0.7",)), "pool api has no join setting"),
    ],
)
def test_members_that_do_not_fit_are_refused(tmp_path: Path, member: JoinedMember, why: str) -> None:
    more = ('[[pool]]\nname = "api"\nzone = "hobbit"\nmembers = ["gandalf"]\nnames = { web-best = "best" }\n',)
    configured = joinable(tmp_path, *more)
    farm, refused = with_joined(configured, joined(ONE, member) if member.name != "web-1" else joined(member))
    assert [item for item, _ in refused] == [member]
    assert why in refused[0][1]
    before = next(iter(configured.zones.values())).nodes
    after = next(iter(farm.zones.values())).nodes
    assert {owner: after[owner] for owner in before} == before, "no record of the zone file changes"


def test_no_more_than_max(tmp_path: Path) -> None:
    many = joined(*(JoinedMember("web", f"web-{n}", (f"10.0.1.{n}",)) for n in range(5)))
    farm, refused = with_joined(joinable(tmp_path), many)
    assert len(farm.pools[0].members) == 1 + 3
    assert [why for _, why in refused] == [
        "pool web already has 3 joined members, the maximum that join.max permits"
    ] * 2


def test_one_host_in_two_pools_of_a_zone(tmp_path: Path) -> None:
    join = 'join = { names = "web-*", networks = ["10.0.0.0/8"] }'
    more = f'[[pool]]\nname = "api"\nzone = "hobbit"\nnames = {{ api = "best" }}\n{join}\n'
    both = joined(ONE, JoinedMember("api", "web-1", ("10.0.0.9",)))
    farm, refused = with_joined(joinable(tmp_path, more), both)
    assert [item for item, _ in refused] == [ONE]
    assert "already joined another pool" in refused[0][1]
    assert farm.hosts["web-1"].addresses == ("10.0.0.9",)


def test_changes() -> None:
    before = joined(TWO, ONE)
    assert before.items == (ONE, TWO), "sorted by name"
    assert before.find("web", "web-2") == TWO
    assert before.find("web", "web-3") is None
    moved = JoinedMember("web", "web-1", ("10.0.0.70",))
    assert before.changed(put=[moved]).items == (moved, TWO)
    assert before.changed(removed=[ONE]).items == (TWO,)
    assert before.changed(put=[ONE]) == before
    assert before.of_pool("api") == []


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["10.0.0.1"], ("10.0.0.1",)),
        (["2001:DB8:0::1", "10.0.0.2", "10.0.0.1", "10.0.0.2"], ("10.0.0.1", "10.0.0.2", "2001:db8::1")),
        (["::ffff:10.0.0.1"], ("10.0.0.1",)),
    ],
)
def test_addresses(texts: list[str], found: tuple[str, ...]) -> None:
    assert host_addresses(texts) == found


@pytest.mark.parametrize(
    "texts",
    [
        [], [""], ["x"], ["10.0.0.1/8"], ["0.0.0.0"], ["::"], ["224.0.0.1"], ["ff02::1"], ["255.255.255.255"],
        ["fe80::1%eth0"], [f"10.0.0.{n}" for n in range(9)],
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_host(texts: list[str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        host_addresses(texts)


def test_documents() -> None:
    assert read_joined_member(TWO.document()) == TWO


_ANYTHING = st.recursive(
    st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=4
)


@given(st.dictionaries(st.sampled_from(["pool", "name", "addresses", "x"]), _ANYTHING) | _ANYTHING)
def test_any_value_is_a_member_or_an_error(value: object) -> None:
    try:
        found = read_joined_member(value)
    except ValueError:
        return
    assert read_joined_member(found.document()) == found
