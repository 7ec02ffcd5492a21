"""Tests of spillover: in a closed loop, the share follows the demand, without flapping and without overload."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.choosing.moving_averages import ExponentialMean
from lbdns.choosing.observed_pool import REQUESTS
from lbdns.choosing.spillover import (
    CALM,
    FALL,
    FULL,
    IS_FULL,
    NO_MEMBER,
    PATIENCE,
    RETURNS,
    RISE,
    STEP,
    BackupUse,
    Spillover,
    TierLoad,
)

GONE: Final = TierLoad(0)


class Farm:
    """A pool and its backup in virtual time. Clients follow answers after some seconds, because resolvers cache them.

    Rates are in requests/s. Each second has one report of each pool, and as many answers as there are requests.
    """

    def __init__(self, capacity: float, backup: float, others: float = 0.0, cached: int = 2, seed: int = 1) -> None:
        self.capacity, self.backup_capacity, self.others = capacity, backup, others
        self.spillover = Spillover()
        self.now, self.shares = 1000.0, [0.0] * (cached + 1)
        self._cached, self._rng = cached, Random(seed)
        self._own, self._backup = ExponentialMean(REQUESTS), ExponentialMean(REQUESTS)
        self._queue = 0.0
        self.carried: list[tuple[float, float]] = []  # requests/s sent to the pool and to the backup

    def run(self, seconds: int, demand: Callable[[float], float]) -> list[float]:
        """Let time pass. Return the share in each second."""
        found = []
        for _ in range(seconds):
            wanted = demand(self.now) * self._rng.uniform(0.97, 1.03)
            followed = self.shares[-1 - self._cached]
            own, spilled = wanted * (1 - followed), wanted * followed
            self.carried.append((own, spilled + self.others))
            self._queue = max(0.0, self._queue + own - self.capacity)
            self._own.add(min(own, self.capacity), 1.0)
            self._backup.add(min(spilled + self.others, self.backup_capacity), 1.0)
            share = self.shares[-1]
            self.spillover.count(round(wanted * (1 - share)), round(wanted * share), self.now)
            rate = (self._own.value or 0.0) + self._queue / 10
            backup = TierLoad(2, self.backup_capacity, self._backup.value or 0.0, measured=True)
            self.shares.append(self.spillover.update(TierLoad(2, self.capacity, rate, measured=True), backup, self.now))
            found.append(self.shares[-1])
            self.now += 1.0
        return found


@settings(derandomize=True, deadline=None)
@given(demand=st.floats(1, 79), seed=st.integers(0, 99))
def test_nothing_is_spilled_while_there_is_spare_capacity(demand: float, seed: int) -> None:
    farm = Farm(100.0, 100.0, seed=seed)
    assert set(farm.run(100, lambda _: demand)) == {0.0}
    assert farm.spillover.why == ""


@settings(derandomize=True, deadline=None)
@given(
    demand=st.floats(1.0, 3.0),
    backup=st.floats(0.2, 3.0),
    others=st.floats(0.0, 0.5),
    cached=st.integers(0, 4),
    seed=st.integers(0, 99),
)
def test_excess_goes_to_the_backup_up_to_what_it_can_carry(
    demand: float, backup: float, others: float, cached: int, seed: int
) -> None:
    farm = Farm(100.0, 100.0 * backup, 100.0 * backup * others, cached, seed)
    shares = farm.run(200, lambda _: 100.0 * demand)[-60:]
    assert farm.spillover.why == IS_FULL
    own, spilled = (math.fsum(carried) / 60 for carried in zip(*farm.carried[-60:], strict=True))
    if 100.0 * (demand + backup * others) < 0.85 * 100.0 * (1 + backup):
        assert own <= 0.98 * 100.0
        assert spilled <= 0.98 * farm.backup_capacity
    else:  # both are full: the pool still keeps what it can carry
        assert own >= 0.8 * 100.0
    assert max(shares) < 1
    assert max(shares) - min(shares) < 0.2


def test_no_flapping_at_the_threshold() -> None:
    farm = Farm(100.0, 100.0)
    shares = farm.run(600, lambda now: 100.0 * (FULL + 0.03 * math.sin(now / 7)))
    begins = sum(after > 0 and before == 0 for before, after in pairwise(shares))
    assert begins <= 1
    assert sum(abs(after - before) > 2 * STEP for before, after in pairwise(shares[100:])) == 0


def test_a_crowd_comes_and_goes() -> None:
    farm = Farm(100.0, 200.0)
    farm.run(60, lambda _: 50.0)
    risen = farm.run(60, lambda _: 200.0)
    assert all(after - before <= RISE + 1e-9 for before, after in pairwise(risen))
    assert risen[-1] == pytest.approx(1 - 0.85 / 2, abs=0.08)
    fallen = farm.run(60, lambda _: 50.0)
    assert all(before - after <= FALL + 1e-9 for before, after in pairwise(fallen))
    assert fallen[-1] == 0
    assert farm.spillover.why == ""


def test_hysteresis_keeps_a_share_of_zero_between_the_thresholds() -> None:
    spillover = Spillover()
    between = 100.0 * (CALM + FULL) / 2
    for second in range(100):
        spillover.count(100, 0, second)
        assert spillover.update(load(between), load(0.0), second) == 0


def load(rate: float) -> TierLoad:
    return TierLoad(2, 100.0, rate, measured=True)


def test_a_pool_without_members_hands_over_at_once_and_returns_step_by_step() -> None:
    spillover = Spillover()
    for second in range(30):
        spillover.count(50, 0, second)
        spillover.update(load(50.0), load(0.0), second)
    assert spillover.update(GONE, load(0.0), 30.0) == 1
    assert spillover.why == NO_MEMBER
    for second in range(31, 60):
        spillover.count(0, 50, second)
        assert spillover.update(GONE, load(50.0), second) == 1
    shares = [spillover.update(load(0.0), load(50.0), second) for second in range(60, 90)]
    assert spillover.why == ""
    assert shares[0] == pytest.approx(1 - FALL)
    assert shares == sorted(shares, reverse=True)
    assert shares[10] > 0
    assert shares[-1] == 0


def test_a_single_member_that_returns_gets_no_more_than_it_can_carry() -> None:
    spillover = Spillover()
    for second in range(30):
        spillover.count(80, 0, second)
        spillover.update(load(80.0), load(0.0), second)
    spillover.update(GONE, load(80.0), 31.0)
    for second in range(32, 60):
        spillover.count(0, 80, second)
        spillover.update(GONE, load(80.0), second)
    for second in range(60, 120):
        share = spillover.update(TierLoad(1, 20.0, 0.0, measured=True), load(80.0), second)
    assert (1 - share) * 80.0 <= FULL * 20.0 + 80.0 * STEP
    assert spillover.why == IS_FULL


def test_a_backup_without_members_gets_nothing() -> None:
    spillover = Spillover()
    assert spillover.update(GONE, GONE, 0.0) == 0
    spillover.update(GONE, load(0.0), 1.0)
    assert spillover.share == 1
    assert spillover.update(GONE, GONE, 2.0) == 0
    assert spillover.why == ""


def test_a_pool_that_never_reported_is_awaited() -> None:
    spillover, unknown = Spillover(), TierLoad(0, unknown=True)
    assert spillover.update(unknown, load(0.0), 0.0) == 0
    assert spillover.update(unknown, load(0.0), PATIENCE - 0.1) == 0
    assert spillover.update(unknown, load(0.0), PATIENCE) == 1


def test_pools_in_different_units() -> None:
    spillover = Spillover()
    for second in range(60):
        spillover.count(100, 0, second)
        share = spillover.update(load(120.0), TierLoad(2, 8.0, 7.9), second)  # the backup's cores are all busy
    assert 0 <= share < 0.15


def test_why_it_returns() -> None:
    spillover = Spillover()
    spillover.update(GONE, load(0.0), 0.0)
    spillover.update(load(10.0), load(0.0), 1.0)
    assert spillover.why == RETURNS


def test_text() -> None:
    assert BackupUse("spare", 0.234, IS_FULL).text == "is full: 23 % to spare"
    assert BackupUse("spare").text == ""
    assert BackupUse("spare", 1.0, NO_MEMBER).takes_all
    assert not BackupUse("spare", 0.99, IS_FULL).takes_all
