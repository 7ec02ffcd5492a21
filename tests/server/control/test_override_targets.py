"""Tests of the targets of overrides, and of whether pools can spare them: quarantined members are no replacements."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.choosing.guard_rails.guard_rails import NO_GUARD, Guard
from lbdns.model.overrides import NO_OVERRIDES, Override, Overrides
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.server.control.override_request import OverrideRequest
from lbdns.server.control.override_targets import OverrideTargets, find_targets, why_not_spare
from lbdns_shared.errors import UnknownNameError
from tests.answering.farms import MEMBERS, hobbit, pool
from tests.collector.joining.joining_farms import joinable

FARM = hobbit(pool(members=MEMBERS))
FRODO = OverrideTargets(("frodo.hobbit",), FARM.pools)
ALL_WELL = Snapshot(1, {f"{name}.hobbit": Reading(0.0, 60.0, 50) for name in MEMBERS})
DEAD = Guard("nothing listens", 0.0, quarantined=True)
DRAIN = Override("drain", "frodo.hobbit")


def why(before: Overrides, after: Overrides, *guards: Guard) -> str:
    return why_not_spare(FRODO, before, after, FARM, ALL_WELL, lambda name: guards, 1.0)


def test_a_quarantined_member_does_not_count_as_a_spare() -> None:
    after = Overrides((DRAIN,))
    assert why(NO_OVERRIDES, after, NO_GUARD, NO_GUARD, NO_GUARD) == ""
    assert why(NO_OVERRIDES, after, DEAD, NO_GUARD, NO_GUARD) == ""
    assert why(NO_OVERRIDES, after, DEAD, NO_GUARD, DEAD) == (
        "frodo is the last usable member of pool web (the others: bilbo: quarantined: nothing listens, for 1 s; "
        "gandalf: quarantined: nothing listens, for 1 s)"
    )


def test_a_quarantined_member_can_be_drained() -> None:
    assert why(NO_OVERRIDES, Overrides((DRAIN,)), DEAD, DEAD, DEAD) == ""


def test_a_quarantined_member_that_is_forced_up_counts_as_a_spare() -> None:
    up = Overrides((Override("up", "bilbo.hobbit"),))
    assert why(up, up.put(DRAIN), DEAD, NO_GUARD, DEAD) == ""


@pytest.mark.parametrize("guards", [(), (DEAD,), (DEAD,) * 4])
def test_while_a_reload_is_under_way_reports_have_to_do(guards: tuple[Guard, ...]) -> None:
    assert why(NO_OVERRIDES, Overrides((DRAIN,)), *guards) == ""


def test_with_many_others_not_all_are_listed() -> None:
    names = tuple(f"bilbo{n}" for n in range(20))
    farm = hobbit(pool(members=("frodo", *names)), more="".join(f"{name} A 127.0.1.1\n" for name in names))
    meant = OverrideTargets(("frodo.hobbit",), farm.pools)
    snapshot = Snapshot(1, {"frodo.hobbit": Reading(0.0, 60.0, 50)})
    text = why_not_spare(meant, NO_OVERRIDES, Overrides((DRAIN,)), farm, snapshot, lambda name: (), 1.0)
    assert text.endswith("bilbo7: has never reported; and 12 more)")


def drain_of(member: str, pool: str = "") -> OverrideRequest:
    return OverrideRequest("drain", "drain", member, pool, ahead=True)


@pytest.mark.parametrize("name", ["web-7", "WEB-7.hobbit."])
def test_a_host_that_may_join_can_be_drained_ahead(tmp_path: Path, name: str) -> None:
    found = find_targets(joinable(tmp_path), drain_of(name))
    assert found == OverrideTargets(("web-7.hobbit",), ())
    with pytest.raises(UnknownNameError, match="no pool has 'web-7'; known: gandalf"):
        find_targets(joinable(tmp_path), OverrideRequest("drain", "drain", "web-7"))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("frodo", "'frodo' does not match the names that may join pool web"),
        ("web-zone", "'web-zone' already has records in the zone file"),
        ("web-" + "x" * 70, "'web-x+' is too long for a name in zone hobbit"),
    ],
)
def test_a_host_that_cannot_join_cannot_be_drained_ahead(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(UnknownNameError, match=f"no pool has '{name}', and it cannot join any of them: {why}"):
        find_targets(joinable(tmp_path), drain_of(name))


def test_without_a_pool_that_hosts_may_join_nothing_is_drained_ahead() -> None:
    with pytest.raises(UnknownNameError, match="pool web has no join setting"):
        find_targets(FARM, drain_of("web-7"))


def test_a_member_is_drained_as_usual() -> None:
    assert find_targets(FARM, drain_of("frodo")) == FRODO
