from __future__ import annotations

import statistics
from random import Random

import pytest

from lbdns_tools.sim.simulated_requests import WORKLOADS


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_sizes_have_the_mean_that_loads_are_reckoned_with(name: str) -> None:
    draw = WORKLOADS[name].draw(Random(1))
    sizes = [draw() for _ in range(400_000)]
    assert min(sizes) > 0
    assert statistics.fmean(sizes) == pytest.approx(WORKLOADS[name].mean, rel=0.03)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_the_same_chance_draws_the_same_sizes(name: str) -> None:
    one, other, third = (WORKLOADS[name].draw(Random(seed)) for seed in (1, 1, 2))
    drawn = [one() for _ in range(20)]
    assert drawn == [other() for _ in range(20)]
    assert drawn != [third() for _ in range(20)]


def test_most_of_a_mix_is_small() -> None:
    draw = WORKLOADS["mix"].draw(Random(1))
    sizes = sorted(draw() for _ in range(100_000))
    assert sizes[50_000] < 0.010
    assert sizes[97_000] > 0.150
