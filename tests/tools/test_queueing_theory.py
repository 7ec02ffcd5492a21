"""Compares the results of the queueing formulas with known values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.queueing_theory import erlang_b, erlang_c, mean_response, offered_within, share_slower, waiting_share


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9])
def test_one_server_is_m_m_1(load: float) -> None:
    assert erlang_c(1, load) == pytest.approx(load)
    assert mean_response(1, 0.07, load / 0.07) == pytest.approx(0.07 / (1 - load))


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9])
def test_two_servers(load: float) -> None:
    assert mean_response(2, 0.07, load * 2 / 0.07) == pytest.approx(0.07 / (1 - load**2))


def test_tables_of_erlang_c() -> None:
    assert erlang_c(3, 2.0) == pytest.approx(4 / 9)
    assert erlang_c(4, 0.0) == 0.0


@pytest.mark.parametrize(("servers", "offered"), [(0, 0.0), (2, 2.0), (2, 3.0), (2, -0.1)])
def test_what_has_no_steady_state(servers: int, offered: float) -> None:
    with pytest.raises(ValueError, match="offered"):
        erlang_c(servers, offered)


def test_a_queue_that_grows_has_no_mean() -> None:
    assert mean_response(2, 0.07, 28.6) is None


def test_hundreds_of_servers_do_not_overflow() -> None:
    assert erlang_c(500, 450.0) == pytest.approx(0.0118, abs=0.002)
    assert erlang_b(2000, 1900.0) < 0.01
    assert erlang_b(5000, 1.0) == 0.0


@pytest.mark.parametrize(("servers", "offered", "lost"), [(0, 3.0, 1.0), (1, 1.0, 0.5), (2, 1.0, 0.2), (3, 0.0, 0.0)])
def test_erlang_b(servers: int, offered: float, lost: float) -> None:
    assert erlang_b(servers, offered) == pytest.approx(lost)


@pytest.mark.parametrize(("servers", "offered"), [(-1, 1.0), (2, -1.0), (2, math.inf), (2, math.nan)])
def test_erlang_b_rejects_what_is_no_load(servers: int, offered: float) -> None:
    with pytest.raises(ValueError, match="offered"):
        erlang_b(servers, offered)


@given(st.integers(1, 60), st.floats(0.01, 0.99))
def test_erlang_b_and_c_agree_with_the_sums(servers: int, load: float) -> None:
    offered = servers * load
    terms = [offered**n / math.factorial(n) for n in range(servers + 1)]
    waiting = terms[-1] / (1 - load)
    assert erlang_b(servers, offered) == pytest.approx(terms[-1] / sum(terms), rel=1e-9)
    assert erlang_c(servers, offered) == pytest.approx(waiting / (sum(terms[:-1]) + waiting), rel=1e-9)


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_response_times_of_m_m_1_are_exponential(load: float) -> None:
    for times in (0.0, 0.5, 2.0, 10.0):
        assert share_slower(1, load, times) == pytest.approx(math.exp(-(1 - load) * times))


@given(st.integers(1, 30), st.floats(0.01, 0.99))
def test_the_mean_is_the_integral_of_the_shares(servers: int, load: float) -> None:
    offered = servers * load
    step, longest = 0.01, 40 / min(1.0, servers - offered)
    if longest / step > 20_000:
        step = longest / 20_000
    times = [step * (at + 0.5) for at in range(int(longest / step))]
    mean = sum(share_slower(servers, offered, time) for time in times) * step
    assert mean == pytest.approx(mean_response(servers, 1.0, offered), rel=0.01)


def test_one_server_of_spare_capacity_is_no_special_case() -> None:
    assert share_slower(2, 1.0, 3.0) == pytest.approx(share_slower(2, 1.0 + 1e-7, 3.0), rel=1e-5)


@pytest.mark.parametrize(("beta", "share"), [(0.0, 1.0), (0.5, 0.504), (1.0, 0.223), (2.0, 0.027)])
def test_shares_of_halfin_and_whitt(beta: float, share: float) -> None:
    assert waiting_share(beta) == pytest.approx(share, abs=0.002)


def test_no_request_waits_with_a_huge_reserve() -> None:
    assert waiting_share(50.0) == 0.0


@given(st.integers(2, 500), st.floats(0.05, 3))
def test_the_offered_load_keeps_waits_short_by_erlang_c(servers: int, times: float) -> None:
    """Compare the approximation with the exact formula: at most one server is missing, and at most one is idle."""
    offered = offered_within(servers, times, 0.05)
    assert erlang_c(servers + 1, offered) * math.exp(-(servers + 1 - offered) * times) <= 0.05
    if servers > 2 and offered < servers - 1:
        assert erlang_c(servers - 1, offered) * math.exp(-(servers - 1 - offered) * times) > 0.05


@given(st.integers(1, 200), st.floats(0.01, 10), st.floats(0.01, 0.5))
def test_more_servers_carry_more(servers: int, times: float, share: float) -> None:
    assert 0 < offered_within(servers, times, share) < offered_within(servers + 1, times, share)
    assert offered_within(servers, times, share) <= servers
