from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.guard_rails.slow_start import FLOOR, LONGEST, MEMORY, OFTEN, SlowStart

ALL = (0, 1, 2)
OTHERS = (0, 1)


def ramps(seconds: float = 10.0) -> SlowStart:
    """Return a SlowStart for three members that have always been candidates."""
    found = SlowStart(3, seconds)
    found.observe(ALL, 0.0, {})
    return found


def come_back(found: SlowStart, now: float) -> None:
    """Make member 2 stop being a candidate, and become one again at ``now``."""
    found.observe(OTHERS, now - 0.5, {})
    found.observe(ALL, now, {})


@pytest.mark.parametrize(
    ("after", "share"),
    [(0.0, FLOOR), (2.5, FLOOR + 0.25 * (1 - FLOOR)), (5.0, (1 + FLOOR) / 2), (9.999, 1.0), (10.0, None), (99.0, None)],
)
def test_a_share_rises_in_a_line(after: float, share: float | None) -> None:
    found = ramps()
    come_back(found, 100.0)
    shares = found.ramps(100.0 + after)
    assert shares.get(2) == (pytest.approx(share, abs=1e-3) if share is not None else None)
    assert shares.keys() <= {2}, "the others have been there all the time"
    assert found.running == (share is not None)


@given(st.lists(st.floats(0, 30), min_size=2), st.floats(0.001, 3600))
def test_a_share_never_falls(moments: list[float], seconds: float) -> None:
    found = ramps(seconds)
    come_back(found, 100.0)
    shares = [found.ramps(100.0 + after).get(2, 1.0) for after in sorted(moments)]
    assert shares == sorted(shares)
    assert all(FLOOR <= share <= 1 for share in shares)


def test_no_ramps_when_they_are_switched_off() -> None:
    found = ramps(0.0)
    come_back(found, 100.0)
    assert found.ramps(100.0) == {}


def test_who_goes_in_between_begins_anew() -> None:
    found = ramps()
    come_back(found, 100.0)
    come_back(found, 109.0)
    assert found.ramps(109.0) == {2: FLOOR}


@pytest.mark.parametrize(
    ("returns", "times"), [(1, 1), (OFTEN, 1), (OFTEN + 1, 2), (OFTEN + 2, 4), (OFTEN + 3, 8), (OFTEN + 9, LONGEST)]
)
def test_who_comes_and_goes_is_ramped_for_longer(returns: int, times: float) -> None:
    found = ramps()
    for number in range(returns):
        come_back(found, 100.0 + number)
    last = 100.0 + returns - 1
    assert found.ramps(last + 10 * times - 0.01)
    assert not found.ramps(last + 10 * times)


def test_what_was_more_than_a_minute_ago_is_forgotten() -> None:
    found = ramps()
    for number in range(10):
        come_back(found, 100.0 + number * (MEMORY + 1))
    assert not found.ramps(100.0 + 9 * (MEMORY + 1) + 10.0)


def test_nobody_is_ramped_at_the_start() -> None:
    found = SlowStart(3, 10.0)
    found.restart(100.0)
    for now, there in enumerate([(1,), (1, 2), ALL], 100):
        found.observe(there, float(now), {})
        assert found.ramps(float(now)) == {}


def test_who_goes_soon_after_a_start_is_ramped_when_it_is_back() -> None:
    found = SlowStart(3, 10.0)
    found.restart(100.0)
    found.observe((1, 2), 100.0, {})
    found.observe((1,), 101.0, {})
    found.observe(ALL, 102.0, {})
    assert found.ramps(102.0) == {2: FLOOR}


def test_who_comes_late_after_a_start_is_ramped() -> None:
    found = SlowStart(3, 10.0)
    found.restart(100.0)
    found.observe(OTHERS, 100.0, {})
    found.observe(ALL, 106.0, {})
    assert found.ramps(106.0) == {2: FLOOR}


def test_rare_reports_give_a_member_more_time_after_a_start_but_no_other() -> None:
    for member, expected in ((2, {}), (1, {1: FLOOR})):
        found = SlowStart(3, 10.0)
        found.restart(100.0)
        found.reported(2, 30.0)
        found.observe(tuple(i for i in ALL if i != member), 100.0, {})
        found.observe(ALL, 129.0, {})
        assert found.ramps(129.0) == expected


def test_when_all_have_changed_nobody_is_ramped() -> None:
    found = ramps()
    found.observe(OTHERS, 100.0, {})
    found.observe((2,), 101.0, {})
    assert found.ramps(101.0) == {}, "no other member carries the pool"


def test_a_restart_ends_all_ramps() -> None:
    found = ramps()
    come_back(found, 100.0)
    found.restart(101.0)
    assert not found.running


def test_a_reload_goes_on_with_those_who_stay() -> None:
    old = ramps()
    come_back(old, 100.0)
    new = SlowStart(3, 10.0)
    new.take_over(old, [2, 0, None])
    assert new.ramps(105.0) == {0: pytest.approx((1 + FLOOR) / 2)}
    new.observe((0, 1, 2), 105.0, {})
    assert new.ramps(105.0)[2] == FLOOR, "a new member has a slow start too"


@pytest.mark.parametrize(("lasted", "ends"), [(0.5, 0.5), (3.0, 3.0), (10.0, 10.0), (600.0, 10.0)])
def test_after_an_alarm_a_ramp_takes_no_longer_than_the_alarm_did(lasted: float, ends: float) -> None:
    found = ramps()
    found.observe(OTHERS, 100.0, {})
    found.observe(ALL, 200.0, {2: lasted})
    assert found.ramps(200.0) == {2: FLOOR}
    assert found.ramps(200.0 + ends - 0.01)
    assert not found.ramps(200.0 + ends)


def test_the_work_grows_no_faster_than_the_pool() -> None:
    members = 20_000
    found = SlowStart(members, 10.0)
    found.observe(tuple(range(members)), 0.0, {})
    began = time.process_time()
    found.observe(tuple(range(0, members, 2)), 100.0, {})
    found.observe(tuple(range(members)), 101.0, {})
    assert time.process_time() - began < 0.5, "comparing each member with every other one takes several seconds"
    assert len(found.ramps(101.0)) == members // 2
