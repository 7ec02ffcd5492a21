"""Tests of the shares of sites: in a closed loop, they follow the headroom, without flapping and without overload."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.choosing.moving_averages import ExponentialMean
from lbdns.choosing.observed_pool import REQUESTS
from lbdns.choosing.site_load import SiteLoad
from lbdns.choosing.site_shares import FALL, HAS_LESS, NO_MEMBER, PATIENCE, PROBE, REST, RETURNS, RISE, STEP, SiteShares

GONE: Final = SiteLoad(())
LOCAL, REMOTE = 0, 1


class Sites:
    """Sites in virtual time. Clients follow answers after some seconds, because resolvers cache them.

    Rates are in requests/s. Each second has one report of each site, and as many answers as there are requests.
    """

    def __init__(
        self, capacities: Sequence[float], orders: Sequence[Sequence[int]], *, cached: int = 2, seed: int = 1
    ) -> None:
        self.capacities, self.shares, self.now = capacities, SiteShares(orders), 1000.0
        self.alive = [True] * len(capacities)
        self.sent: list[list[float]] = []  # requests/s by second and site
        self._past = [[list(shares) for shares in self.shares.shares]] * (cached + 1)
        self._cached, self._rng = cached, Random(seed)
        self._rates = [ExponentialMean(REQUESTS) for _ in capacities]
        self._queues = [0.0] * len(capacities)

    def run(self, seconds: int, demands: Sequence[float], order: int = 0) -> list[list[float]]:
        """Let time pass, with the given requests/s by order. Return the shares of one ``order`` in each second."""
        found = []
        for _ in range(seconds):
            wanted = [demand * self._rng.uniform(0.97, 1.03) for demand in demands]
            followed = self._past[-1 - self._cached]
            self.sent.append(
                [sum(w * f[site] for w, f in zip(wanted, followed, strict=True)) for site in range(len(self.alive))]
            )
            for number, demand in enumerate(wanted):
                self.shares.count(number, [round(demand * share) for share in self.shares.shares[number]])
            self.shares.update([self._load(site) for site in range(len(self.alive))], self.now)
            self._past.append([list(shares) for shares in self.shares.shares])
            found.append(self._past[-1][order])
            self.now += 1.0
        return found

    def sends(self, order: int, site: int) -> bool:
        """Return whether clients with this order get ``site``, by more than a probe."""
        return self.shares.shares[order][site] > PROBE + 1e-9

    def _load(self, site: int) -> SiteLoad:
        sent, capacity = self.sent[-1][site], self.capacities[site]
        if not self.alive[site]:
            self._queues[site], self._rates[site] = 0.0, ExponentialMean(REQUESTS)
            return GONE
        self._queues[site] = max(0.0, self._queues[site] + sent - capacity)
        self._rates[site].add(min(sent, capacity), 1.0)
        rate = (self._rates[site].value or 0.0) + self._queues[site] / 10
        return SiteLoad((2 * site, 2 * site + 1), capacity, rate, measured=True)


def load(utilization: float, hosts: int = 2, capacity: float = 0.0) -> SiteLoad:
    capacity = capacity or 50.0 * hosts
    return SiteLoad(tuple(range(hosts)), capacity, utilization * capacity, measured=True)


def settled(loads: Sequence[SiteLoad], orders: Sequence[Sequence[int]] = ((0, 1),)) -> list[float]:
    """Return the first order's shares if the loads do not change, whatever the answers are."""
    shares = SiteShares(orders)
    for second in range(200):
        for number in range(len(orders)):
            shares.count(number, [round(1000 * share) for share in shares.shares[number]])
        shares.update(loads, second)
    return shares.shares[0]


@pytest.mark.parametrize(
    ("here", "there"), [(0.0, 0.0), (0.5, 0.45), (0.6, 0.51), (0.2, 0.9), (0.95, 0.9), (1.4, 1.35)]
)
def test_the_nearest_site_is_used_alone_while_it_has_about_as_much_headroom(here: float, there: float) -> None:
    probe = PROBE if there < 0.9 else 0.0
    assert settled([load(here), load(there)]) == pytest.approx([1 - probe, probe])


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ([load(0.9), load(0.1)], [0.1, 0.9]),
        ([load(0.8), load(0.2, hosts=6)], [0.2 / 2.6 * 1, 2.4 / 2.6]),
        ([load(0.5), load(0.3)], [0.5 / 1.2, 0.7 / 1.2]),
        ([load(2.0, capacity=300.0), load(1.5, capacity=100.0)], [0.75, 0.25]),  # both overloaded: by capacity
    ],
)
def test_otherwise_the_shares_follow_hosts_times_headroom(loads: Sequence[SiteLoad], expected: list[float]) -> None:
    # Shares rest once their target is nearer than REST; the target itself lies up to 0.4 times as far from the goal
    assert settled(loads) == pytest.approx(expected, abs=2 * REST)


def test_the_next_site_joins_before_a_site_that_is_farther_away() -> None:
    sites = Sites((100.0, 100.0, 100.0), [(0, 1, 2)])
    near, next_site, far = sites.run(200, [110.0])[-1]
    assert far < min(near, next_site)


def test_sites_of_unknown_load_count_by_their_hosts() -> None:
    stale = SiteLoad((0, 1, 2), 3.0, is_stale=True)
    assert settled([load(0.7), stale])[LOCAL] == pytest.approx(1 - PROBE), "its headroom is not known"
    assert 0.25 <= settled([load(0.95, hosts=20), stale])[LOCAL] <= 0.9, "an overloaded site gets help from any other"
    assert settled([stale, load(0.0)])[LOCAL] == pytest.approx(1 - PROBE)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    capacities=st.lists(st.floats(50, 300), min_size=2, max_size=3),
    part=st.floats(0.1, 0.8),
    split=st.lists(st.floats(0.05, 1), min_size=3, max_size=3),
    cached=st.integers(0, 4),
    seed=st.integers(0, 99),
)
def test_no_site_gets_more_than_it_can_carry(
    capacities: list[float], part: float, split: list[float], cached: int, seed: int
) -> None:
    count = len(capacities)
    orders = [tuple((first + n) % count for n in range(count)) for first in range(count)]
    sites = Sites(capacities, orders, cached=cached, seed=seed)
    whole = part * sum(capacities)
    demands = [whole * weight / sum(split[:count]) for weight in split[:count]]
    found = sites.run(200, demands)
    for site, capacity in enumerate(capacities):
        assert sum(sent[site] for sent in sites.sent[-60:]) / 60 <= capacity
    for site in range(count):
        late = [shares[site] for shares in found[-60:]]
        assert max(late) - min(late) < 0.2, "shares do not swing"


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    capacities=st.lists(st.floats(50, 300), min_size=2, max_size=4),
    phases=st.lists(
        st.tuples(st.floats(0.2, 2.0), st.lists(st.floats(0.05, 1), min_size=4, max_size=4), st.integers(0, 5)),
        min_size=1,
        max_size=4,
    ),
    seed=st.integers(0, 99),
)
def test_no_site_sends_clients_away_while_it_gets_those_of_others(
    capacities: list[float], phases: list[tuple[float, list[float], int]], seed: int
) -> None:
    count = len(capacities)
    orders = [(first, *(site for site in range(count) if site != first)) for first in range(count)]
    sites = Sites(capacities, orders, seed=seed)
    for part, split, dead in phases:  # the last site always lives
        sites.alive = [site != dead or site == count - 1 for site in range(count)]
        demands = [part * sum(capacities) * weight / sum(split[:count]) for weight in split[:count]]
        nearest = [next(site for site in order if sites.alive[site]) for order in orders]
        for _ in range(30):
            sites.run(1, demands)
            used = {(home, site) for n, home in enumerate(nearest) for site in range(count) if sites.sends(n, site)}
            assert {home for home, site in used if home != site}.isdisjoint(site for home, site in used if home != site)


@pytest.mark.parametrize("demands", [(200.0, 100.0, 100.0), (150.0, 150.0, 10.0), (200.0, 140.0, 20.0)])
@pytest.mark.parametrize("orders", [[(0, 1, 2), (1, 0, 2), (2, 1, 0)], [(0, 1, 2), (1, 2, 0), (2, 0, 1)]])
def test_if_all_sites_are_overloaded_they_share_by_capacity_and_keep_their_own_clients(
    demands: tuple[float, ...], orders: list[tuple[int, ...]]
) -> None:
    sites = Sites((100.0, 100.0, 100.0), orders)
    sites.run(240, demands)
    sent = [sum(second[site] for second in sites.sent[-60:]) / 60 for site in range(3)]
    assert max(sent) - min(sent) < 25, "the load is shared"
    moved = sum(demand * (1 - sites.shares.decided[n][n]) for n, demand in enumerate(demands))
    excess = sum(max(0.0, demand - sum(demands) / 3) for demand in demands)
    assert moved < 1.5 * excess, "no more clients leave their site than necessary"


def test_a_large_site_that_returns_gets_its_own_clients_before_those_of_others() -> None:
    sites = Sites((200.0, 100.0), [(LOCAL, REMOTE), (REMOTE, LOCAL)])
    sites.run(60, [45.0, 25.0])
    sites.alive[LOCAL] = False
    sites.run(30, [45.0, 25.0])
    sites.alive[LOCAL] = True
    returned = sites.run(60, [45.0, 25.0], order=1)
    assert min(shares[REMOTE] for shares in returned) >= 1 - PROBE - 1e-9
    assert sites.shares.decided[0] == [1.0, 0.0]


def test_no_flapping_at_the_threshold() -> None:
    sites = Sites((100.0, 100.0), [(LOCAL, REMOTE), (REMOTE, LOCAL)])
    local = [shares[LOCAL] for shares in sites.run(600, [60.0, 50.0])]
    assert sum(abs(after - before) > STEP for before, after in pairwise(local)) < 10


def test_a_site_fills_dies_and_comes_back() -> None:
    sites = Sites((100.0, 100.0), [(LOCAL, REMOTE), (REMOTE, LOCAL)])
    filled = sites.run(60, [95.0, 5.0])
    assert all(before[LOCAL] - after[LOCAL] <= RISE + PROBE for before, after in pairwise(filled))
    assert sites.shares.why == [HAS_LESS, ""]
    assert 0.45 < filled[-1][LOCAL] < 0.65
    sites.alive[REMOTE] = False
    died = sites.run(30, [55.0, 30.0], order=1)
    assert died[0] == [1.0, 0.0], "clients of a site that fails go elsewhere at once"
    assert sites.shares.why == ["", NO_MEMBER]
    sites.alive[REMOTE] = True
    returned = sites.run(1, [55.0, 30.0], order=1)
    assert 0 < returned[0][REMOTE] <= FALL + PROBE
    assert sites.shares.why[1] == RETURNS
    returned += sites.run(60, [55.0, 30.0], order=1)
    assert all(after[REMOTE] - before[REMOTE] <= FALL + 1e-9 for before, after in pairwise(returned))
    assert returned[-1][REMOTE] == pytest.approx(1 - PROBE)
    assert sites.shares.why[1] == ""


def test_a_site_that_dies_does_not_overload_the_next_one() -> None:
    sites = Sites((100.0, 100.0, 100.0), [(0, 1, 2), (1, 2, 0), (2, 1, 0)])
    sites.run(100, [70.0, 70.0, 5.0])
    sites.alive[0] = False
    sites.run(60, [70.0, 70.0, 5.0])
    assert max(max(sent) for sent in sites.sent[-60:]) < 90.0


def test_a_site_that_has_never_reported_is_awaited() -> None:
    shares, unknown = SiteShares([(LOCAL, REMOTE)]), SiteLoad((0, 1), 2.0, is_stale=True, is_unknown=True)
    shares.update([unknown, load(0.1)], 0.0)
    shares.update([unknown, load(0.1)], PATIENCE - 0.1)
    assert shares.shares[0][LOCAL] >= 1 - PROBE
    shares.update([unknown, load(0.1)], PATIENCE)
    assert shares.shares[0] == [0.0, 1.0]


def test_without_any_usable_member_the_shares_stay() -> None:
    shares = SiteShares([(LOCAL, REMOTE)])
    shares.update([GONE, GONE], 0.0)
    assert shares.shares[0] == [1.0, 0.0]
