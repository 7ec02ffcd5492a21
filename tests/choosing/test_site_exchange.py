"""Tests of the rule that a site that gets clients of other sites keeps its own clients."""

from __future__ import annotations

from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.site_exchange import without_exchange, without_meeting

Shares = list[list[float]]


@pytest.mark.parametrize(
    ("shares", "demand", "expected"),
    [
        # Both send half of the same demand: all stay at home
        ([[0.5, 0.5], [0.5, 0.5]], [10, 10], [[1, 0], [0, 1]]),
        # 20 clients of the first site and 10 of the second were exchanged: 10 of the first site's remain away
        ([[0.5, 0.5], [0.5, 0.5]], [40, 20], [[0.75, 0.25], [0, 1]]),
        # In one direction only
        ([[0.5, 0.5], [0, 1]], [10, 10], [[0.5, 0.5], [0, 1]]),
        # A circle of three sites
        ([[0.8, 0.2, 0], [0, 0.8, 0.2], [0.3, 0, 0.7]], [10, 10, 10], [[1, 0, 0], [0, 1, 0], [0.1, 0, 0.9]]),
        # The first site's clients displace those of the second, which go to the third
        ([[0.7, 0.3, 0], [0, 0.8, 0.2], [0, 0, 1]], [10, 10, 10], [[0.7, 0.1, 0.2], [0, 1, 0], [0, 0, 1]]),
        ([[0.9, 0.1, 0], [0, 0.5, 0.5], [0, 0, 1]], [10, 10, 10], [[0.9, 0, 0.1], [0, 0.6, 0.4], [0, 0, 1]]),
        # Without answers, demand is unknown, but the shares must not cross
        ([[0.5, 0.5], [0.5, 0.5]], [0, 0], [[1, 0], [0, 1]]),
        ([[0.5, 0.5], [0.25, 0.75]], [0, 10], [[1, 0], [0.25, 0.75]]),
    ],
)
def test_exchanged_clients_stay_at_home(shares: Shares, demand: list[float], expected: Shares) -> None:
    found = without_exchange(shares, range(len(shares)), demand)
    assert [pytest.approx(parts, abs=1e-5) for parts in expected] == found


def test_two_orders_with_the_same_nearest_site_give_up_their_exchange_in_proportion() -> None:
    shares = [[0.8, 0.2, 0], [0.6, 0.4, 0], [0.2, 0.8, 0]]
    found = without_exchange(shares, [0, 0, 1], [10, 10, 15])
    assert [pytest.approx(parts) for parts in ([0.9, 0.1, 0], [0.8, 0.2, 0], [0, 1, 0])] == found


@st.composite
def situations(draw: st.DrawFn) -> tuple[Shares, list[int], list[float]]:
    sites = draw(st.integers(2, 4))
    nearest = draw(st.lists(st.integers(0, sites - 1), min_size=1, max_size=6))
    parts = st.lists(st.sampled_from([0.0, 0.0, 0.1, 0.5, 1.0, 3.0]), min_size=sites, max_size=sites).filter(any)
    shares = [[part / fsum(row) for part in row] for row in (draw(parts) for _ in nearest)]
    return shares, nearest, draw(st.lists(st.floats(0, 1000), min_size=len(nearest), max_size=len(nearest)))


@given(situations())
def test_no_site_passes_clients_on_and_the_load_of_each_site_stays_the_same(
    situation: tuple[Shares, list[int], list[float]],
) -> None:
    shares, nearest, demand = situation
    found = without_exchange(shares, nearest, demand)
    sites = range(len(shares[0]))
    for site in sites:
        load, before = (
            fsum(d * parts[site] for d, parts in zip(demand, rows, strict=True)) for rows in (found, shares)
        )
        assert load == pytest.approx(before, abs=1e-4 * (1 + fsum(demand)))
    assert all(fsum(parts) == pytest.approx(1) and min(parts) >= 0 for parts in found)
    flows = {(home, site) for parts, home in zip(found, nearest, strict=True) for site in sites if parts[site] > 1e-9}
    assert {home for home, site in flows if home != site}.isdisjoint(site for home, site in flows if home != site)


@pytest.mark.parametrize(
    ("targets", "shares", "expected"),
    [
        # The second site's clients are still at the first site, which must not send clients to the second meanwhile
        ([[0.7, 0.3], [0, 1]], [[1, 0], [0.5, 0.5]], [[1, 0], [0, 1]]),
        ([[0.5, 0.5], [0, 1]], [[0.8, 0.2], [0.5, 0.5]], [[0.8, 0.2], [0, 1]]),
        ([[0.7, 0.3], [0, 1]], [[1, 0], [0, 1]], [[0.7, 0.3], [0, 1]]),
        ([[0.9, 0.1], [0, 1]], [[0.8, 0.2], [0.5, 0.5]], [[0.9, 0.1], [0, 1]]),  # fewer than now
        # They are at a third site
        (
            [[0.7, 0.3, 0], [0, 1, 0], [0, 0, 1]],
            [[1, 0, 0], [0, 0.5, 0.5], [0, 0, 1]],
            [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        ),
    ],
)
def test_clients_return_before_others_come(targets: Shares, shares: Shares, expected: Shares) -> None:
    found = without_meeting(targets, shares, range(len(shares)))
    assert [pytest.approx(parts) for parts in expected] == found
