"""Compares the results of the queueing formulas with known values."""

from __future__ import annotations

import pytest

from lbdns_tools.lab.statistics.queueing_theory import erlang_c, mean_response


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
