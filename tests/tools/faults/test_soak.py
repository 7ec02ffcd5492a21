"""Tests of the soak's schedule and judgement."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.faults.soak import EventWindow, LogPeriod, log_problems, quarters, unexplained_losses
from lbdns_tools.faults.soak_events import EVENTS, MIN_GAP_S, schedule


@given(st.integers(0, 2**62))
def test_a_seed_gives_a_schedule(seed: int) -> None:
    first, second = (schedule(1800, Random(seed)) for _ in range(2))
    assert first == second
    assert all(later[0] - earlier[0] >= MIN_GAP_S for earlier, later in pairwise(first))
    assert first[-1][0] < 1800
    counts = [sum(event is one for _, event in first) for one in EVENTS]
    assert max(counts) - min(counts) <= 1


NOON = 1772366400.0
RELOAD = "2026-03-01T12:00:00Z ERROR   lbdns.server: reload: hobbit.zone: nonsense"
RELOADED = LogPeriod("reload", NOON - 1, NOON + 10)


def test_a_strange_log_line_is_a_problem() -> None:
    good = "2026-03-01T12:00:00Z INFO    lbdns.server: ready: 1 zone, 1 pool, native plane\n"
    assert log_problems(good, []) == []
    assert log_problems(good + "what is this?\n", []) == ["unexplained log line: what is this?"]


def test_an_event_explains_its_own_lines_in_its_own_time() -> None:
    assert log_problems(RELOAD, [RELOADED]) == []
    assert len(log_problems(RELOAD, [])) == 1
    assert len(log_problems(RELOAD, [LogPeriod("reload", NOON + 5, NOON + 10)])) == 1
    assert len(log_problems(RELOAD, [LogPeriod("worker", NOON - 1, NOON + 10)])) == 1


def test_an_unexplained_loss_is_described_by_its_time() -> None:
    windows = [EventWindow(EVENTS[0], 10.0, 16.0), EventWindow(EVENTS[1], 30.0, 36.0)]
    assert unexplained_losses([5.0, 20.0, 37.5], windows) == (
        "3 queries were lost or answered wrongly at times without an event: "
        f"before all events, 4.0 s after {EVENTS[0].name}, 1.5 s after {EVENTS[1].name}"
    )


def test_a_flood_of_strange_lines_is_summarised() -> None:
    assert log_problems("?\n" * 25, [])[-1] == "the log contains 5 more unexplained lines"


@pytest.mark.parametrize(("values", "expected"), [
    ([], (0.0, 0.0)),
    ([5.0], (5.0, 5.0)),
    ([99.0] * 20 + [10.0] * 80, (10.0, 10.0)),  # the warm-up does not count
    ([float(number) for number in range(101)], (30.0, 90.0)),
])  # fmt: skip
def test_quarters(values: list[float], expected: tuple[float, float]) -> None:
    assert quarters([(float(at), value) for at, value in enumerate(values)]) == pytest.approx(expected, abs=1.0)
