from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.host_capacity import HostCapacity
from lbdns.choosing.request_cost import ENOUGH


def reports(host: HostCapacity, seconds: int, requests: float, cpu: float, cores: float = 2.0) -> float:
    """Send a report a second that adds ``requests`` and ``cpu`` seconds; return the last estimate."""
    found = 0.0
    for second in range(seconds):
        metrics = {"requests_total": second * requests, "httpd_cpu_seconds": second * cpu, "cpu_count": cores}
        found = host.observe(metrics, 1.0, 100.0 + second)
    return found


def test_capacity_is_speed_times_cores() -> None:
    # Of the 51 requests, the agent's own status request uses almost no CPU time
    assert reports(HostCapacity(), 30, 51.0, 0.5) == pytest.approx(2 * 50 / 0.5, rel=0.05)


def test_it_is_unknown_until_enough_requests_have_been_served() -> None:
    assert reports(HostCapacity(), 10, 2.0, 0.01) == 0.0
    assert reports(HostCapacity(), int(ENOUGH) + 20, 2.0, 0.01) > 0.0
    assert HostCapacity().observe({}, 1.0, 0.0) == 0.0


def test_impossible_increases_count_for_nothing() -> None:
    host = HostCapacity()
    honest = reports(host, 30, 51.0, 0.5)
    lie = {"requests_total": 1e12, "httpd_cpu_seconds": 15.0, "cpu_count": 2.0}
    assert host.observe(lie, 1.0, 131.0) == pytest.approx(honest)


def test_it_follows_a_change() -> None:
    host = HostCapacity()
    reports(host, 30, 51.0, 0.5)
    found = 0.0
    for second in range(240):
        metrics = {"requests_total": 1e4 + second * 11.0, "httpd_cpu_seconds": 1e3 + second * 0.5, "cpu_count": 2.0}
        found = host.observe(metrics, 1.0, 200.0 + second)
    assert found == pytest.approx(2 * 10 / 0.5, rel=0.1)


NAMES = ("requests_total", "httpd_cpu_seconds", "cpu_count", "cpu_idle")


@given(
    st.lists(st.dictionaries(st.sampled_from(NAMES), st.floats(allow_nan=False, allow_infinity=False)), max_size=30),
    st.floats(0.02, 60),
)
def test_whatever_is_reported_it_is_not_negative(stream: list[dict[str, float]], interval: float) -> None:
    host = HostCapacity()
    for number, metrics in enumerate(stream):
        assert host.observe(metrics, interval, 100.0 + number * interval) >= 0.0
