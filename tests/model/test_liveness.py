"""Tests of liveness: states and candidates, derived from the ages of readings."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.model.liveness import Liveness, State, assess, state_of
from lbdns.model.overrides import ForcedState
from lbdns.model.snapshot import FailedCheck, Reading
from lbdns_shared.report import WEB_SERVER_FAILED

NOW = 1000.0


def heard(age: float, interval: float = 1.0, alarm: str = "", gone: bool = False) -> Reading:
    return Reading(received=NOW - age, interval=interval, score=50, alarm=alarm, gone=gone)


class TestStateOf:
    @pytest.mark.parametrize(
        ("reading", "expected"),
        [
            (None, "unknown"),
            (heard(0.0), "usable"),
            (heard(2.99), "usable"),
            (heard(3.0), "silent"),
            (heard(100.0), "silent"),
            (heard(29.0, interval=10.0), "usable"),
            (heard(30.0, interval=10.0), "silent"),
            (heard(0.0, gone=True), "silent"),
            (heard(0.0, alarm="run_queue"), "alarm"),
            (heard(5.0, alarm="run_queue"), "silent"),
            (heard(0.0, alarm="run_queue", gone=True), "silent"),
        ],
    )
    def test_by_age(self, reading: Reading | None, expected: State) -> None:
        assert state_of(reading, NOW, 3.0) == expected
        assert state_of(reading, NOW, 3.0, "drained") == "drained"
        assert state_of(reading, NOW, 3.0, "up") == "usable"
        assert state_of(reading, NOW, 3.0, "down") == "alarm"


def assessed(*readings: Reading | None, drained: tuple[int, ...] = (), min_usable: float = 0.5) -> Liveness:
    return assess(readings, ["drained" if i in drained else "" for i in range(len(readings))], NOW, 3.0, min_usable)


def failed(reading: Reading, pool: str = "web") -> Reading:
    return replace(reading, failed_checks=(FailedCheck(pool, "tcp:80: connection refused"),))


def test_who_fails_the_pool_s_check_is_silent() -> None:
    assert state_of(failed(heard(0)), NOW, 3.0, pool="web") == "silent"
    assert state_of(failed(heard(0, alarm="x")), NOW, 3.0, pool="web") == "silent"
    assert state_of(failed(heard(0), "mail"), NOW, 3.0, pool="web") == "usable"
    assert state_of(failed(heard(0)), NOW, 3.0, "up", pool="web") == "usable"


class TestFailedChecks:
    def assessed(self, *readings: Reading) -> Liveness:
        return assess(readings, [""] * len(readings), NOW, 3.0, 0.5, "web")

    def test_one_that_fails_is_no_candidate_and_its_silence_is_no_change_to_wait_for(self) -> None:
        found = self.assessed(heard(0), failed(heard(1.6)), heard(0.5))
        assert (found.candidates, found.fail_open) == ((0, 2), "")
        assert found.next_change == NOW + 2.5

    def test_when_all_fail_all_are_candidates(self) -> None:
        found = self.assessed(*(failed(heard(1.6)) for _ in range(3)))
        assert (found.candidates, found.fail_open) == ((0, 1, 2), "no member is usable")

    def test_when_most_fail_at_once_all_are_candidates(self) -> None:
        found = self.assessed(heard(0), failed(heard(1.6)), failed(heard(1.7)))
        assert found.candidates == (0, 1, 2)
        assert "stopped at the same time" in found.fail_open

    def test_when_the_agents_say_that_the_web_servers_failed_it_is_not_the_network(self) -> None:
        alarm = heard(0.1, alarm="web server failed")
        found = self.assessed(heard(0), failed(alarm), failed(alarm))
        assert (found.candidates, found.fail_open) == ((0,), "")


class TestFailedWebServers:
    FAILED = heard(0.1, alarm=f"{WEB_SERVER_FAILED}: nothing listens on port 80")

    def test_a_pool_that_fails_open_leaves_them_out_while_another_member_is_left(self) -> None:
        busy = heard(0.1, alarm="listen_queue 300 > 256")
        found = assessed(busy, self.FAILED, busy)
        assert (found.candidates, found.fail_open) == ((0, 2), "no member is usable")
        assert assessed(None, self.FAILED, heard(9.0)).candidates == (0, 2)
        assert assessed(busy, self.FAILED, drained=(0,)).candidates == (1,)

    def test_when_all_have_failed_all_are_candidates(self) -> None:
        assert assessed(self.FAILED, self.FAILED).candidates == (0, 1)


class TestAssess:
    @pytest.mark.parametrize(
        ("readings", "drained", "candidates"),
        [
            ((heard(0), heard(0), heard(0)), (), (0, 1, 2)),
            ((heard(0), heard(9), heard(0)), (), (0, 2)),
            ((heard(0), None, heard(0)), (), (0, 2)),
            ((heard(0), heard(0, alarm="x"), heard(0)), (), (0, 2)),
            ((heard(0), heard(0), heard(0)), (0,), (1, 2)),
            # one of three is left: two died one after another, which is two deaths
            ((heard(0), heard(9), heard(99)), (), (0,)),
            # most have never reported, so their reports cannot have stopped
            ((heard(0), None, None), (), (0,)),
            # a goodbye is no accident either
            ((heard(0), heard(9, gone=True), heard(9, gone=True)), (), (0,)),
            # most give an alarm: their reports arrive and ask for no traffic
            ((heard(0), heard(0, alarm="x"), heard(0, alarm="x")), (), (0,)),
            ((), (), ()),
        ],
    )
    def test_the_usable_ones(
        self, readings: tuple[Reading | None, ...], drained: tuple[int, ...], candidates: tuple[int, ...]
    ) -> None:
        liveness = assessed(*readings, drained=drained)
        assert liveness.candidates == candidates
        assert liveness.fail_open == "", "a pool without members has nobody to open to"

    @pytest.mark.parametrize(
        ("readings", "drained", "candidates"),
        [
            ((None, None, None), (), (0, 1, 2)),
            ((heard(9), heard(99), None), (), (0, 1, 2)),
            ((heard(0, alarm="x"), heard(0, alarm="y")), (), (0, 1)),
            ((heard(9), heard(9)), (0,), (1,)),
            # all are drained: no better answer is left than all of them
            ((heard(0), heard(0)), (0, 1), (0, 1)),
        ],
    )
    def test_nobody_usable_opens(
        self, readings: tuple[Reading | None, ...], drained: tuple[int, ...], candidates: tuple[int, ...]
    ) -> None:
        liveness = assessed(*readings, drained=drained)
        assert liveness.candidates == candidates
        assert liveness.fail_open == "no member is usable"

    def test_too_few_because_reports_stopped_at_once_opens(self) -> None:
        liveness = assessed(heard(0), heard(9.0), heard(10.0))
        assert liveness.candidates == (0, 1, 2)
        assert liveness.fail_open == "reports from 2 of 3 members stopped at the same time"

    @pytest.mark.parametrize(("apart", "opens"), [(3.0, True), (3.01, False)])
    def test_at_once_is_within_the_time_that_makes_silent(self, apart: float, opens: bool) -> None:
        assert bool(assessed(heard(0), heard(9.0), heard(9.0 + apart)).fail_open) is opens

    def test_a_long_interval_of_one_member_does_not_make_later_failures_simultaneous(self) -> None:
        liar = failed(heard(0, interval=60.0))
        assert assess([heard(0), liar, heard(20.0)], [""] * 3, NOW, 3.0, 0.5, "web").fail_open == ""
        assert assessed(heard(0), heard(200.0, interval=60.0), heard(20.0)).fail_open == ""

    @pytest.mark.parametrize(("min_usable", "opens"), [(0.0, False), (0.3, False), (0.34, True), (1.0, True)])
    def test_the_share_that_must_be_usable(self, min_usable: float, opens: bool) -> None:
        assert bool(assessed(heard(0), heard(9), heard(9), min_usable=min_usable).fail_open) is opens

    def test_drained_members_don_t_count_as_silent(self) -> None:
        # two of four are drained; of the other two, one is silent: exactly half is usable
        assert assessed(heard(0), heard(9), heard(9), heard(9), drained=(2, 3)).fail_open == ""

    def test_drained_members_are_not_among_the_lost_ones(self) -> None:
        liveness = assessed(heard(0), heard(9), heard(9), heard(9), heard(0), drained=(4,))
        assert liveness.candidates == (0, 1, 2, 3)

    def test_the_next_change_is_the_next_silence(self) -> None:
        assert assessed(heard(0), heard(1), heard(2.5)).next_change == pytest.approx(NOW + 0.5)
        assert assessed(heard(0, interval=10), heard(1, alarm="x")).next_change == pytest.approx(NOW + 2)
        assert assessed(heard(9), None).next_change == math.inf
        assert assessed(heard(1), drained=(0,)).next_change == math.inf


class TestSites:
    """Members 0 to 3 are in one site, member 4 is in another."""

    SITES: Final = ((0, 1, 2, 3), (4,))

    def assessed(self, *readings: Reading | None, forced: dict[int, ForcedState] | None = None) -> Liveness:
        forced_states = [(forced or {}).get(i, "") for i in range(len(readings))]
        return assess(readings, forced_states, NOW, 3.0, 0.5, "web", self.SITES)

    @pytest.mark.parametrize(
        ("readings", "candidates"),
        [
            ((*[heard(9)] * 4, heard(0)), (4,)),  # the large site dies
            ((*[failed(heard(0.5))] * 4, heard(0)), (4,)),
            ((*[None] * 4, heard(0)), (4,)),
            ((heard(2.9), *[heard(3.5)] * 3, heard(0)), (0, 4)),  # its last member has not become silent yet
            ((heard(0), *[heard(9)] * 3, heard(0)), (0, 4)),  # or survives
            ((*[heard(0)] * 4, heard(9)), (0, 1, 2, 3)),
            ((heard(0), heard(0), heard(9), heard(9), heard(9)), (0, 1)),
        ],
    )
    def test_a_pool_does_not_fail_open_while_a_site_has_enough_usable_members(
        self, readings: tuple[Reading | None, ...], candidates: tuple[int, ...]
    ) -> None:
        found = self.assessed(*readings)
        assert (found.candidates, found.fail_open) == (candidates, "")

    @pytest.mark.parametrize(
        ("readings", "candidates", "why"),
        [
            ((*[heard(9)] * 5,), (0, 1, 2, 3, 4), "no member is usable"),
            # Reports from most members of the only site that reports stopped at the same time
            (
                (heard(0), *[heard(9)] * 3, heard(99)),
                (0, 1, 2, 3),
                "reports from 3 of 4 members stopped at the same time; sites without reports are left out",
            ),
            # An overloaded site replaces one that is gone
            ((*[heard(9)] * 4, heard(0, alarm="x")), (4,), "no member is usable; sites without reports are left out"),
            ((*[heard(9)] * 4, TestFailedWebServers.FAILED), (0, 1, 2, 3), "no member is usable"),
        ],
    )
    def test_otherwise_it_does(
        self, readings: tuple[Reading | None, ...], candidates: tuple[int, ...], why: str
    ) -> None:
        found = self.assessed(*readings)
        assert (found.candidates, found.fail_open) == (candidates, why)

    def test_a_site_without_reports_is_included_if_the_other_is_drained_or_forced_down(self) -> None:
        assert self.assessed(*[heard(9)] * 4, heard(0), forced={4: "drained"}).candidates == (0, 1, 2, 3)
        assert self.assessed(*[heard(9)] * 4, heard(0), forced={4: "down"}).candidates == (0, 1, 2, 3, 4)


readings = st.none() | st.builds(
    heard, age=st.floats(0, 20), interval=st.floats(0.1, 5), alarm=st.sampled_from(["", "x"]), gone=st.booleans()
)


@given(st.lists(st.tuples(readings, st.booleans()), max_size=8), st.floats(0, 1))
def test_always(members: list[tuple[Reading | None, bool]], min_usable: float) -> None:
    liveness = assess([r for r, _ in members], ["drained" if d else "" for _, d in members], NOW, 3.0, min_usable)
    assert len(liveness.states) == len(members)
    all_drained = all(drained for _, drained in members)
    assert all_drained or not any(members[i][1] for i in liveness.candidates)
    usable = {i for i, state in enumerate(liveness.states) if state == "usable"}
    assert usable <= set(liveness.candidates)
    assert liveness.fail_open or set(liveness.candidates) == usable
    assert liveness.candidates or not members
    assert liveness.next_change > NOW
    if math.isfinite(liveness.next_change):
        later = assess(
            [r for r, _ in members], ["drained" if d else "" for _, d in members], liveness.next_change, 3.0, min_usable
        )
        assert later.states != liveness.states


@given(
    st.lists(st.tuples(readings, st.sampled_from(["", "", "", "drained", "up", "down"])), min_size=2, max_size=8),
    st.integers(1, 7),
    st.floats(0, 1),
)
def test_always_with_sites(members: list[tuple[Reading | None, ForcedState]], first: int, min_usable: float) -> None:
    first = min(first, len(members) - 1)
    sites = (range(first), range(first, len(members)))
    seen, forced = [r for r, _ in members], [f for _, f in members]
    found = assess(seen, forced, NOW, 3.0, min_usable, "", sites)
    usable = {i for i, state in enumerate(found.states) if state == "usable"}
    assert found.candidates
    assert usable <= set(found.candidates)
    assert found.fail_open or usable == set(found.candidates)
    for site in sites:
        if usable and usable.isdisjoint(site):
            # A site without a usable member gets no clients while another site has one, unless it is only overloaded
            states = {found.states[i] for i in site}
            assert "alarm" in states or set(site).isdisjoint(found.candidates)
        alone = assess(seen[site.start : site.stop], forced[site.start : site.stop], NOW, 3.0, min_usable)
        assert alone.fail_open or not found.fail_open, "a site that would not fail open by itself can serve"
