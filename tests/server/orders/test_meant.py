"""Who is missed: members that are set aside don't count."""

from __future__ import annotations

import pytest

from lbdns.overrides import NO_OVERRIDES, Override, Overrides
from lbdns.policies.guard_rails.guards import NO_GUARD, Guard
from lbdns.server.orders.meant import Meant, cant_spare
from lbdns.snapshot import Reading, Snapshot
from tests.answering.farms import MEMBERS, hobbit, pool

FARM = hobbit(pool(members=MEMBERS))
FRODO = Meant(("frodo.hobbit",), FARM.pools)
ALL_WELL = Snapshot(1, {f"{name}.hobbit": Reading(0.0, 60.0, 50) for name in MEMBERS})
DEAD = Guard("nothing listens", 0.0, quarantined=True)
DRAIN = Override("drain", "frodo.hobbit")


def why(before: Overrides, after: Overrides, *guards: Guard) -> str:
    return cant_spare(FRODO, before, after, FARM, ALL_WELL, lambda name: guards, 1.0)


def test_who_is_set_aside_is_no_help() -> None:
    after = Overrides((DRAIN,))
    assert why(NO_OVERRIDES, after, NO_GUARD, NO_GUARD, NO_GUARD) == ""
    assert why(NO_OVERRIDES, after, DEAD, NO_GUARD, NO_GUARD) == ""
    assert why(NO_OVERRIDES, after, DEAD, NO_GUARD, DEAD) == (
        "frodo is the last usable member of pool web (the others: bilbo: quarantined: nothing listens, since 1 s; "
        "gandalf: quarantined: nothing listens, since 1 s)"
    )


def test_who_is_set_aside_itself_can_be_drained() -> None:
    assert why(NO_OVERRIDES, Overrides((DRAIN,)), DEAD, DEAD, DEAD) == ""


def test_who_is_set_aside_and_forced_up_is_a_help() -> None:
    up = Overrides((Override("up", "bilbo.hobbit"),))
    assert why(up, up.put(DRAIN), DEAD, NO_GUARD, DEAD) == ""


@pytest.mark.parametrize("guards", [(), (DEAD,), (DEAD,) * 4])
def test_while_a_reload_is_under_way_reports_have_to_do(guards: tuple[Guard, ...]) -> None:
    assert why(NO_OVERRIDES, Overrides((DRAIN,)), *guards) == ""


def test_with_many_others_not_all_are_listed() -> None:
    names = tuple(f"bilbo{n}" for n in range(20))
    farm = hobbit(pool(members=("frodo", *names)), more="".join(f"{name} A 127.0.1.1\n" for name in names))
    meant = Meant(("frodo.hobbit",), farm.pools)
    snapshot = Snapshot(1, {"frodo.hobbit": Reading(0.0, 60.0, 50)})
    text = cant_spare(meant, NO_OVERRIDES, Overrides((DRAIN,)), farm, snapshot, lambda name: (), 1.0)
    assert text.endswith("bilbo7: has never reported; and 12 more)")
