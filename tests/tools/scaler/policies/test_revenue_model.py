"""Compares the revenue model with the figures of the 2012 study."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.scaler.policies.revenue_model import (
    INSTANCE_TYPES,
    LossModel,
    Prices,
    best_servers,
    capacity_of,
    flat_rate_hours,
    hourly_revenue,
    lost_share,
    servers_for,
)

RATES = (35, 100, 300, 350, 560, 572, 575, 600)
CAPACITY = capacity_of(0.07, 2)


@pytest.mark.parametrize(
    ("model", "expected"),
    [(LossModel.CAPACITY, (2, 4, 11, 13, 20, 20, 21, 21)), (LossModel.ERLANG_B, (3, 7, 17, 19, 29, 29, 29, 30))],
)
@pytest.mark.parametrize("capacity", [CAPACITY, 1 / 0.035, 28.571])
def test_best_numbers_of_servers(model: LossModel, expected: tuple[int, ...], capacity: float) -> None:
    assert tuple(best_servers(rate, capacity, Prices(), model, 50) for rate in RATES) == expected


def test_the_maximum_limits_the_search() -> None:
    assert best_servers(600, CAPACITY, Prices(), LossModel.CAPACITY, 20) == 20
    assert best_servers(0, CAPACITY, Prices(), LossModel.CAPACITY, 20) == 1


@pytest.mark.parametrize(
    ("hours", "lost", "cost", "revenue"),
    [(312, 343_763, 53.04, 318.52), (351, 32_288, 59.67, 317.18), (480, 2_148, 81.60, 295.76)],
    ids=["auto scale", "optimal", "always 20"],
)
def test_table_6_2(hours: float, lost: float, cost: float, revenue: float) -> None:
    assert Prices().cost(hours) == pytest.approx(cost)
    assert Prices().revenue(22.2e6, lost, hours) == pytest.approx(revenue, abs=0.005)


@pytest.mark.parametrize(("service_time", "cores", "capacity"), [(0.070, 2, 28.571), (0.132, 1, 7.576)])
def test_equation_5_1(service_time: float, cores: float, capacity: float) -> None:
    assert capacity_of(service_time, cores) == pytest.approx(capacity, abs=0.001)


def test_the_flat_rate() -> None:
    hours = flat_rate_hours(350, 30, 24)
    assert hours == pytest.approx(280)
    assert Prices().cost(hours) == pytest.approx(47.60)
    assert Prices().cost(480) == pytest.approx(81.60)


@pytest.mark.parametrize(
    ("name", "per_request"), [("m1.small", 3.935e-6), ("m1.large", 5.247e-6), ("c1.medium", 1.687e-6)]
)
def test_table_5_2(name: str, per_request: float) -> None:
    assert INSTANCE_TYPES[name].price_per_request == pytest.approx(per_request, rel=1e-3)


def test_servers_for_a_rate_ignore_rounding_errors() -> None:
    assert 600 * 0.035 > 21
    assert servers_for(600, 1 / 0.035) == 21
    assert servers_for(600.1, 1 / 0.035) == 22
    assert servers_for(0, 1 / 0.035) == 0


@pytest.mark.parametrize("model", LossModel)
def test_lost_shares(model: LossModel) -> None:
    assert lost_share(0, 3.0, model) == 1
    assert lost_share(3, 0.0, model) == 0
    assert lost_share(10, 20.0, model) >= 0.5
    assert lost_share(20, 10.0, model) < 0.01


@given(st.floats(0, 2000), st.floats(0.1, 100), st.sampled_from(LossModel), st.floats(1e-6, 1e-3), st.floats(0.01, 1))
def test_no_number_of_servers_earns_more(
    rate: float, capacity: float, model: LossModel, income: float, price: float
) -> None:
    prices = Prices(income, price)
    best = best_servers(rate, capacity, prices, model, 60)
    highest = max(hourly_revenue(servers, rate, capacity, prices, model) for servers in range(1, 61))
    assert hourly_revenue(best, rate, capacity, prices, model) == pytest.approx(highest, rel=1e-9, abs=1e-9)
