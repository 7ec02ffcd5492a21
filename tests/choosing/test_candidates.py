"""Candidates: which members may be selected and until when, given their reports, overrides and spare capacity."""

from __future__ import annotations

import math
from collections.abc import Mapping

from lbdns.choosing.answer_tally import AnswerTally
from lbdns.choosing.candidates import Candidates
from lbdns.choosing.observed_pool import ObservedPool
from lbdns.model.overrides import NO_POOL_OVERRIDES, PoolOverrides
from lbdns.model.snapshot import Reading, Snapshot

NAMES = ("a.z", "b.z", "c.z")


class CandidatePool:
    """A pool of three members whose reports are valid for three intervals."""

    def __init__(self) -> None:
        self.pool = ObservedPool(NAMES)
        self.candidates = Candidates(self.pool, AnswerTally(3, 1), 3.0, 0.5, 10.0, black_hole=True)
        self.readings: dict[str, Reading] = {}

    def update(self, now: float, readings: Mapping[str, Reading], overrides: PoolOverrides = NO_POOL_OVERRIDES) -> bool:
        self.readings.update(readings)
        self.pool.overrides = overrides
        return self.candidates.update(self.pool.observe(Snapshot(1, dict(self.readings))), now)

    def indexes(self) -> list[int]:
        return list(self.candidates.liveness.candidates)


def reading(received: float, alarm: str = "") -> Reading:
    return Reading(received, 1.0, 50, {"run_queue": 1.0}, alarm)


def test_before_any_report_all_members_are_candidates() -> None:
    pool = CandidatePool()
    assert pool.indexes() == [0, 1, 2]
    assert pool.candidates.liveness.fail_open == "no member is usable"
    assert pool.candidates.next_change == math.inf


def test_reports_alarms_and_drains_decide() -> None:
    pool = CandidatePool()
    readings = {"a.z": reading(0.0), "b.z": reading(0.0), "c.z": reading(0.0, alarm="swapping")}
    assert pool.update(0.0, readings)
    assert pool.indexes() == [0, 1]
    pool.update(0.1, {}, PoolOverrides({"a.z": "drained"}))
    assert pool.indexes() == [1]
    pool.update(0.2, {}, PoolOverrides({"c.z": "up"}))
    assert pool.indexes() == [0, 1, 2]
    assert pool.candidates.unproven == {2}, "its reports say otherwise"


def test_a_late_report_is_overdue_before_the_member_is_silent() -> None:
    pool = CandidatePool()
    pool.update(0.0, {name: reading(0.0) for name in NAMES})
    pool.update(1.0, {name: reading(1.0) for name in NAMES[:2]})
    assert pool.candidates.next_change == 2.0, "two intervals after the last report"
    assert not pool.update(1.5, {})
    assert pool.update(2.0, {})
    assert list(pool.candidates.overdue(2.0)) == [2]
    assert pool.candidates.next_change == 3.0
    assert pool.update(3.0, {})
    assert pool.candidates.liveness.states == ("usable", "usable", "silent")


def test_a_reload_keeps_states_but_not_of_new_members() -> None:
    old = CandidatePool()
    old.update(0.0, {name: reading(0.0) for name in NAMES})
    pool = ObservedPool(("c.z", "d.z"))
    pool.take_over(old.pool, [2, None])
    new = Candidates(pool, AnswerTally(2, 1), 3.0, 0.5, 10.0, black_hole=True)
    new.take_over(old.candidates, [2, None])
    assert new.liveness.states == ("usable", "unknown")
