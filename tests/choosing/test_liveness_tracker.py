"""Tests of the liveness tracker: whatever happens, it returns what an assessment of all members returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.liveness_tracker import LivenessTracker
from lbdns.model.liveness import assess
from lbdns.model.overrides import ForcedState
from lbdns.model.snapshot import FailedCheck, Reading

MEMBERS = 4
STALE_AFTER, MIN_USABLE, POOL = 3.0, 0.5, "web"
FORCED: tuple[ForcedState, ...] = ("", "", "", "drained", "up", "down")


@dataclass
class Step:
    """What happens between two updates."""

    seconds: float
    reports: dict[int, tuple[str, bool, float, bool]]  # by member: alarm, "bye", interval, failed check
    forced: list[ForcedState] | None  # None: the forced states remain


@dataclass
class Tracked:
    sites: Sequence[Sequence[int]] = ()
    readings: list[Reading | None] = field(default_factory=lambda: [None] * MEMBERS)
    forced: list[ForcedState] = field(default_factory=lambda: [""] * MEMBERS)
    now: float = 100.0

    def __post_init__(self) -> None:
        self.tracker = LivenessTracker(STALE_AFTER, MIN_USABLE, POOL, self.sites)

    def take(self, step: Step) -> None:
        self.now += step.seconds
        for member, (alarm, gone, interval, failed) in step.reports.items():
            checks = (FailedCheck(POOL, "refused"),) if failed else ()
            self.readings[member] = Reading(self.now, interval, 50, {}, alarm=alarm, gone=gone, failed_checks=checks)
        self.forced = step.forced or self.forced
        found = self.tracker.update(self.readings, list(step.reports), self.forced, self.now)
        assert found == assess(self.readings, self.forced, self.now, STALE_AFTER, MIN_USABLE, POOL, self.sites)


reports = st.tuples(
    st.sampled_from(["", "", "", "busy", "web server failed"]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.sampled_from([False, False, True]),
)
steps = st.builds(
    Step,
    st.sampled_from([0.1, 0.5, 1.0, 2.0, 3.0]),
    st.dictionaries(st.integers(0, MEMBERS - 1), reports),
    st.none() | st.none() | st.lists(st.sampled_from(FORCED), min_size=MEMBERS, max_size=MEMBERS),
)


@given(st.lists(steps, max_size=20), st.sampled_from([(), ((0, 1), (2, 3)), ((0,), (1, 2, 3))]))
def test_the_liveness_is_that_of_an_assessment(changes: list[Step], sites: Sequence[Sequence[int]]) -> None:
    tracked = Tracked(sites)
    for change in changes:
        tracked.take(change)


def test_while_no_state_changes_the_states_and_candidates_are_the_same_objects() -> None:
    tracked = Tracked()
    healthy = dict.fromkeys(range(MEMBERS), ("", False, 1.0, False))
    tracked.take(Step(1.0, healthy, None))
    before = tracked.tracker.update(tracked.readings, (), tracked.forced, tracked.now)
    tracked.take(Step(1.0, healthy, None))
    after = tracked.tracker.update(tracked.readings, (), tracked.forced, tracked.now)
    assert after.states is before.states
    assert after.candidates is before.candidates
    assert after.next_change == before.next_change + 1.0
