"""Tests of level filling."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies.level_filling import fill_to_level, python_fill_to_level, water_level

VESSELS = st.lists(st.tuples(st.floats(0, 1000), st.floats(0.01, 1000)), min_size=1, max_size=30)
JARS = st.lists(
    st.tuples(st.floats(-100, 100), st.floats(0.01, 100), st.floats(0.01, 100) | st.just(math.inf)),
    min_size=1,
    max_size=12,
)


@given(VESSELS, st.floats(0.5, 1e5))
def test_the_water_level_distributes_the_whole_amount(vessels: list[tuple[float, float]], poured: float) -> None:
    loads, capacities = zip(*vessels, strict=True)
    level = water_level(loads, capacities, poured)
    total = sum(max(0.0, level * c - n) for n, c in vessels)
    assert total == pytest.approx(poured, rel=1e-6)


@pytest.mark.parametrize(
    ("loads", "capacities", "poured", "level"),
    [
        ((0, 0), (1, 1), 2, 1.0),
        ((10, 0), (1, 1), 4, 4.0),  # the full member gets nothing
        ((10, 0), (1, 1), 20, 15.0),
        ((4, 2), (2, 1), 3, 3.0),
        ((0, 0, 0), (1, 2, 5), 16, 2.0),
    ],
)
def test_water_levels(loads: list[float], capacities: list[float], poured: float, level: float) -> None:
    assert water_level(loads, capacities, poured) == pytest.approx(level)


@given(JARS, st.floats(0.5, 1e4))
def test_no_member_exceeds_its_limit_while_others_have_room(
    jars: list[tuple[float, float, float]], poured: float
) -> None:
    loads, vessels, most = zip(*jars, strict=True)
    parts = fill_to_level(loads, vessels, most, poured)
    assert sum(parts) == pytest.approx(poured)
    assert min(parts) >= 0
    if sum(most) >= poured:
        assert all(part <= limit * (1 + 1e-9) for part, limit in zip(parts, most, strict=True))


@pytest.mark.parametrize(
    ("most", "parts"),
    [
        ((math.inf, math.inf), (6.0, 6.0)),
        ((math.inf, 4.0), (8.0, 4.0)),
        ((2.0, 4.0), (4.0, 8.0)),  # more than there is room for: in proportion
        ((2.0, math.inf), (2.0, 10.0)),
    ],
)
def test_filling_up_to_limits(most: tuple[float, float], parts: tuple[float, float]) -> None:
    assert fill_to_level((0.0, 0.0), (1.0, 1.0), most, 12.0) == pytest.approx(parts)


def test_filling_many_members_is_the_same_in_python() -> None:
    loads = [float(i * 7 % 13) for i in range(2500)]
    widths = [1.0 + i % 4 for i in range(2500)]
    limits = [float("inf") if i % 3 else 5.0 for i in range(2500)]
    for amount in (10.0, 5000.0, 100_000.0):
        filled = python_fill_to_level(loads, widths, limits, amount)
        assert filled == fill_to_level(loads, widths, limits, amount)
        assert sum(filled) == pytest.approx(amount)
