"""Intended starts of open loops."""

from __future__ import annotations

import heapq
from dataclasses import replace
from itertools import islice, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.load.arrival_times import arrivals
from lbdns_tools.load.load_plan import OpenLoop

RATES = st.lists(st.sampled_from([0.0, 0.1, 1.0, 3.7, 10.0, 50.0]), min_size=2, max_size=5).map(tuple)
LOADS = st.builds(
    OpenLoop,
    RATES,
    st.sampled_from([0.5, 1.0, 3.0, 10.0]),
    st.sampled_from(["even", "poisson"]),
    st.booleans(),
    st.sampled_from([0, 1, 20, 10_000]),
)


def starts(load: OpenLoop, part: int = 0, parts: int = 1, seed: int = 1) -> list[float]:
    return list(arrivals(load, Random(seed), part, parts))


def test_evenly_spaced() -> None:
    assert starts(OpenLoop((2.0,), 2.0)) == [0.0, 0.5, 1.0, 1.5]
    assert starts(OpenLoop((2.0, 4.0), 1.0)) == [0.0, 0.5, 1.0, 1.25, 1.5, 1.75]
    assert starts(OpenLoop((2.0, 0.0, 1.0), 2.0)) == [0.0, 0.5, 1.0, 1.5, 4.0, 5.0]


def test_the_distance_goes_on_over_a_change_of_rate() -> None:
    # Three quarters of a request are left over from the first step: the next starts a quarter of 0.5 s into the second
    assert starts(OpenLoop((0.75, 2.0), 1.0)) == pytest.approx([0.0, 1.125, 1.625])


@pytest.mark.parametrize(("rate", "seconds"), [(0.1, 30.0), (1.0, 1200.0), (1000.0, 7.0), (3.3, 100.0)])
def test_as_many_as_rate_times_seconds(rate: float, seconds: float) -> None:
    assert len(starts(OpenLoop((rate,), seconds))) == round(rate * seconds)
    assert len(starts(OpenLoop((rate,) * 10, seconds / 10))) == round(rate * seconds)


def test_a_ramp() -> None:
    found = starts(OpenLoop((0.0, 100.0), 10.0, ramp=True))
    assert len(found) == 500
    assert len([start for start in found if start < 5.0]) == 125  # a quarter of them in the first half
    down = starts(OpenLoop((100.0, 0.0), 10.0, ramp=True))
    assert len([start for start in down if start < 5.0]) == 375
    there_and_back = starts(OpenLoop((10.0, 200.0, 10.0), 10.0, ramp=True))
    assert len(there_and_back) == 2100


def test_at_most_so_many() -> None:
    assert starts(OpenLoop((2.0,), 100.0, requests=3)) == [0.0, 0.5, 1.0]
    assert len(starts(OpenLoop((2.0,), 100.0, "poisson", requests=3))) == 3


def test_poisson() -> None:
    found = starts(OpenLoop((100.0,), 200.0, "poisson"))
    assert len(found) == pytest.approx(20_000, rel=0.03)
    gaps = [after - before for before, after in pairwise(found)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert variance / mean**2 == pytest.approx(1.0, abs=0.05)  # exponential
    stepped = starts(OpenLoop((50.0, 150.0), 100.0, "poisson"))
    assert len([start for start in stepped if start < 100]) == pytest.approx(5_000, rel=0.05)
    assert len(stepped) == pytest.approx(20_000, rel=0.03)


@given(LOADS, st.integers(0, 5), st.integers(1, 7))
def test_all_parts_together_are_the_whole(load: OpenLoop, seed: int, parts: int) -> None:
    whole = starts(load, seed=seed)
    dealt = [starts(load, part, parts, seed) for part in range(parts)]
    assert list(heapq.merge(*dealt)) == whole
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
    assert all(mine == whole[part::parts] for part, mine in enumerate(dealt))


@given(LOADS, st.integers(0, 5))
def test_ascending_and_within_the_steps(load: OpenLoop, seed: int) -> None:
    found = starts(load, seed=seed)
    assert found == sorted(found)
    assert all(0 <= start <= load.length_s for start in found)
    if load.spacing == "even":
        assert len(found) == pytest.approx(load.expected, abs=1)
    if load.requests:
        assert len(found) <= load.requests
        assert found == starts(replace(load, requests=0), seed=seed)[: load.requests]


@pytest.mark.parametrize("load", [OpenLoop((0.0,), 10.0), OpenLoop((0.0, 0.0), 10.0, ramp=True), OpenLoop((5.0,), 0.0)])
def test_nothing_to_send_ends(load: OpenLoop) -> None:
    assert starts(load) == []
    assert starts(replace(load, spacing="poisson")) == []


def test_nothing_is_worked_out_ahead() -> None:
    endless = arrivals(OpenLoop((1e6,), 1e6, "poisson"), Random(1))
    assert len(list(islice(endless, 5))) == 5


def test_the_random_numbers_are_those_given() -> None:
    load = OpenLoop((10.0,), 10.0, "poisson")
    first, again, other = (list(arrivals(load, Random(seed))) for seed in (1, 1, 2))
    assert first == again
    assert first != other
