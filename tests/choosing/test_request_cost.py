from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.request_cost import KEPT, MEMORY, SLOW_MEMORY, FadingWork, RequestCost
from tests.choosing.observed_work import work


def test_a_restart_of_the_web_server_adds_nothing() -> None:
    member = work(100)
    before = member.work.requests
    member.observe({"requests_total": 3.0, "httpd_cpu_seconds": 0.1}, 1.0)
    assert 0 < member.work.requests <= before
    member.observe({"requests_total": 13.0, "httpd_cpu_seconds": 0.2}, 1.0)
    assert member.work.requests > before * 0.9
    assert member.work.cpu_seconds > 0


def test_old_observations_fade() -> None:
    fading = FadingWork(MEMORY, KEPT)
    fading.add(100 * KEPT, 100.0)
    fading.fade(MEMORY)
    assert fading.requests == pytest.approx(100 * KEPT / math.e)
    assert fading.speed == pytest.approx(KEPT)


def test_few_observations_fade_slowly() -> None:
    fading = FadingWork(MEMORY, KEPT)
    fading.add(2 * KEPT, 1.0)
    fading.fade(10 * MEMORY)
    assert 0.5 * KEPT < fading.requests <= KEPT
    fading.fade(SLOW_MEMORY)
    assert fading.requests < 0.4 * KEPT


@given(st.floats(0, 1e6), st.lists(st.floats(0, 1e4), min_size=1, max_size=20))
def test_fading_never_adds_work_and_keeps_the_speed(requests: float, pauses: list[float]) -> None:
    fading = FadingWork(MEMORY, KEPT)
    fading.add(requests, requests / 50)
    before = fading.requests
    for seconds in pauses:
        fading.fade(seconds)
        assert fading.requests <= before * (1 + 1e-9)
        before = fading.requests
    assert fading.speed == pytest.approx(50) or before < 1e-300


def test_equal_sizes_have_no_variance() -> None:
    assert work(100).work.relative_variance == pytest.approx(0.0, abs=1e-9)
    assert RequestCost().work.relative_variance == math.inf


@pytest.mark.parametrize(
    "impossible",
    [
        {"requests_total": 1e9, "httpd_cpu_seconds": 1.0},
        {"requests_total": 100.0, "httpd_cpu_seconds": 2.6},  # on two cores, in one second
        {"requests_total": 100.0, "httpd_cpu_seconds": 1e9},
    ],
)
def test_impossible_increases_count_for_nothing(impossible: dict[str, float]) -> None:
    member = RequestCost()
    member.observe({"requests_total": 0.0, "httpd_cpu_seconds": 0.0, "cpu_count": 2.0}, 1.0)
    member.observe({**impossible, "cpu_count": 2.0}, 1.0)
    assert (member.work.requests, member.work.cpu_seconds) == (0.0, 0.0)
