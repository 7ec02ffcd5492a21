"""Which servers are created, started, drained and deleted for a wanted number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.scaler.life_cycle.scaling_plan import FleetLimits, natural_key, new_names, scaling_plan
from lbdns_tools.scaler.life_cycle.server_record import ServerRecord
from lbdns_tools.scaler.life_cycle.server_state import ON_THE_WAY, ServerState

S = ServerState
NO_LIMITS = FleetLimits()


def fleet(**states: str) -> list[ServerRecord]:
    return [ServerRecord(name.replace("_", "-"), ServerState(state), 100.0) for name, state in states.items()]


def plan(records: list[ServerRecord], wanted: int, limits: FleetLimits = NO_LIMITS, **more: object) -> list[str]:
    changes = scaling_plan(records, wanted, 200.0, "a test", limits, "web-", **more)  # type: ignore[arg-type]
    return [f"{c.after.name} {c.after.state.value}{' keep' if c.after.keep else ''}" for c in changes]


CASES: list[tuple[dict[str, str], int, FleetLimits, list[str]]] = [
    ({}, 2, FleetLimits(), ["web-1 wanted", "web-2 wanted"]),
    ({"web_7": "in service"}, 2, FleetLimits(), ["web-8 wanted"]),
    ({"web_1": "in service", "web_2": "starting"}, 2, FleetLimits(), []),
    ({"web_1": "in service", "web_2": "failed"}, 2, FleetLimits(), ["web-3 wanted"]),
    # Draining servers return first, then spares, then new ones
    (
        {"web_1": "draining", "web_2": "stopped", "web_3": "in service"}, 4, FleetLimits(1),
        ["web-1 joining", "web-2 starting", "web-4 wanted"],
    ),
    ({"web_1": "in service", "web_2": "deleting"}, 4, FleetLimits(quota=3), ["web-3 wanted"]),
    ({"web_1": "in service", "web_2": "in service"}, 4, FleetLimits(quota=2), []),
    # Servers that serve nobody go first, then the last ones
    ({"web_9": "in service", "web_10": "in service"}, 1, FleetLimits(), ["web-10 draining"]),
    ({"web_1": "wanted", "web_9": "in service"}, 1, FleetLimits(), ["web-1 deleting"]),
    ({"web_1": "configuring", "web_9": "in service"}, 1, FleetLimits(), ["web-1 draining"]),
    ({"web_1": "in service", "web_2": "in service"}, 1, FleetLimits(1), ["web-2 draining keep"]),
    ({"web_1": "in service", "web_2": "in service", "web_3": "stopped"}, 1, FleetLimits(1), ["web-2 draining"]),
    ({"web_1": "in service", "web_2": "stopped", "web_10": "stopped"}, 1, FleetLimits(1), ["web-10 deleting"]),
]  # fmt: skip


@pytest.mark.parametrize(("states", "wanted", "limits", "expected"), CASES)
def test_plan(states: dict[str, str], wanted: int, limits: FleetLimits, expected: list[str]) -> None:
    assert plan(fleet(**states), wanted, limits) == expected


def test_the_policy_names_those_that_go_first() -> None:
    records = fleet(web_1="in service", web_2="in service", web_3="in service")
    assert plan(records, 1, remove_first=["web-2"]) == ["web-2 draining", "web-3 draining"]


def test_held_servers_are_neither_counted_nor_removed() -> None:
    records = fleet(web_1="in service", web_2="in service")
    assert plan(records, 2, held=frozenset({"web-2"})) == ["web-3 wanted"]
    assert plan(records, 1, held=frozenset({"web-2"})) == []


def test_no_name_is_used_twice() -> None:
    assert new_names("web-", ["web-2", "db-9"], highest=5, count=2) == ["web-6", "web-7"]
    assert natural_key("web") == ("web", -1)


STATES = st.dictionaries(st.integers(1, 30), st.sampled_from([state.value for state in ServerState]), max_size=12)


@given(STATES, st.integers(1, 12), st.integers(0, 3), st.none() | st.integers(0, 15))
def test_a_plan_reaches_the_wanted_number_within_the_quota(
    states: dict[int, str], wanted: int, spares: int, quota: int | None
) -> None:
    records = [ServerRecord(f"web-{number}", ServerState(state), 1.0) for number, state in states.items()]
    changes = scaling_plan(records, wanted, 2.0, "a test", FleetLimits(spares, quota), "web-")
    after = {record.name: record for record in records} | {change.after.name: change.after for change in changes}
    there = sum(record.state is S.IN_SERVICE or record.state in ON_THE_WAY for record in after.values())
    assert len({change.after.name for change in changes}) == len(changes)
    assert there <= wanted or not changes
    assert len(after) <= max(len(records), quota if quota is not None else 99)
    if quota is None:
        assert there == wanted
    for change in changes:
        if change.before and change.before.state is S.IN_SERVICE:
            assert change.after.state is S.DRAINING
    assert sum(r.state is S.STOPPED for r in after.values()) <= spares
