"""Tests of the farm that the pictures of the live page show."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lbdns_tools.bench.dns.benchmark_farm import MEMBERS
from lbdns_tools.page_pictures.pictured_farm import affected, is_reached, member_names, query_rate


def test_three_members_have_the_names_of_the_zone() -> None:
    assert member_names(3) == tuple(MEMBERS)
    assert member_names(4) == ("web001", "web002", "web003", "web004")
    assert member_names(1000)[-1] == "web1000"


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (3, 1), (30, 3), (200, 20), (1000, 100)])
def test_a_tenth_of_the_members_is_affected(count: int, expected: int) -> None:
    assert len(affected(member_names(count))) == expected


def test_the_rate_grows_to_a_limit() -> None:
    assert [query_rate(count) for count in (1, 3, 30, 1000)] == [20, 60, 600, 600]


@pytest.mark.parametrize(
    ("state", "states", "fail_open", "expected"),
    [
        ("rest", ["usable"] * 3, False, True),
        ("rest", ["usable", "usable", "unknown"], False, False),
        ("loaded", ["usable"] * 3, False, True),
        ("loaded", ["usable"] * 3, True, False),
        ("drained", ["drained", "usable", "usable"], False, True),
        ("drained", ["drained", "drained", "usable"], False, False),
        ("dead", ["usable", "silent", "usable"], False, True),
        ("dead", ["usable", "usable", "usable"], False, False),
        ("failing-open", ["silent"] * 3, True, True),
        ("failing-open", ["silent"] * 3, False, False),
        ("failing-open", ["silent", "silent", "usable"], True, False),
    ],
)
def test_a_state_is_reached(state: str, states: Sequence[str], fail_open: bool, expected: bool) -> None:
    pool = {"members": [{"state": found} for found in states], "fail_open": fail_open}
    assert is_reached(state, pool) is expected


@pytest.mark.parametrize(("idle", "expected"), [([0.0, 20.0, 20.0], True), ([20.0] * 3, False), ([0.0] * 3, False)])
def test_a_tenth_of_the_members_is_full(idle: Sequence[float], expected: bool) -> None:
    members = [{"state": "usable", "metrics": {"idle_workers": found}} for found in idle]
    assert is_reached("full", {"members": members, "fail_open": False}) is expected
