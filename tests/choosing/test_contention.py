"""Contention: the share of a host's capacity that other programs leave to the web server."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.contention import Contention


def after(
    seconds: int, used: float, idle: float, busy: float, cores: float = 1.0, of: Contention | None = None
) -> float:
    """Return the available share of the host's CPU after ``seconds`` seconds of this use (fractions of all CPUs)."""
    contention = of or Contention()
    for second in range(seconds + 1):
        contention.observe(
            {"httpd_cpu_seconds": second * used * cores, "cpu_idle": 100 * idle, "busy_workers": busy},
            1.0 if second else 0.0,
        )
    return contention.available_share(cores)


@pytest.mark.parametrize(
    ("used", "idle", "busy", "cores", "left"),
    [
        (0.0, 1.0, 0.0, 1.0, 1.0),  # idle
        (0.5, 0.5, 1.0, 1.0, 1.0),  # half busy, by itself
        (1.0, 0.0, 50.0, 1.0, 1.0),  # full, by itself
        (0.1, 0.9, 30.0, 1.0, 1.0),  # requests that wait for something else than the processor
        (0.25, 0.0, 20.0, 1.0, 0.25 * 21 / 20),  # others take three quarters
        (0.25, 0.0, 20.0, 0.4, 0.25 * 21 / 20),  # under a quota
        (0.25, 0.0, 40.0, 8.0, 0.25 * 48 / 40),  # on eight cores
        (0.2, 0.3, 4.0, 1.0, 0.5 * 5 / 4.3),  # of what is idle it could have had more
    ],
)
def test_the_available_share(used: float, idle: float, busy: float, cores: float, left: float) -> None:
    assert after(60, used, idle, busy, cores) == pytest.approx(left, rel=0.05)


def test_cores_that_a_member_does_not_have_seem_taken_by_other_programs() -> None:
    contention = Contention()
    assert after(60, 1.0, 0.02, 98.0, 2.0, of=contention) == 1.0
    assert contention.available_share(8.0) == pytest.approx(0.25, rel=0.2)


def test_contention_appears_and_fades_within_seconds() -> None:
    contention = Contention()
    after(30, 0.3, 0.7, 1.0, of=contention)
    assert contention.available_share(1.0) == 1.0
    assert after(4, 0.25, 0.0, 20.0, of=contention) < 0.35
    assert after(10, 0.3, 0.7, 0.0, of=contention) == pytest.approx(1.0, abs=0.1), "even with hardly any requests"


@pytest.mark.parametrize("missing", ["httpd_cpu_seconds", "cpu_idle", "busy_workers"])
def test_a_missing_metric_changes_nothing(missing: str) -> None:
    contention = Contention()
    for second in range(10):
        metrics = {"httpd_cpu_seconds": second * 0.1, "cpu_idle": 0.0, "busy_workers": 9.0}
        del metrics[missing]
        contention.observe(metrics, 1.0)
    assert contention.available_share(1.0) == 1.0


def test_a_restarted_web_server_does_not_look_slow() -> None:
    contention = Contention()
    for used in (1000.0, 0.2):
        contention.observe({"httpd_cpu_seconds": used, "cpu_idle": 0.0, "busy_workers": 9.0}, 1.0)
    assert contention.available_share(1.0) == 1.0


number = st.floats(0, 1e15)


@given(
    st.lists(
        st.tuples(
            st.fixed_dictionaries(
                {"httpd_cpu_seconds": number, "cpu_idle": st.floats(-1e15, 1e15), "busy_workers": number},
                optional={"listen_queue": st.floats(-1e15, 1e15)},
            ),
            st.floats(0, 1e6),
        )
    ),
    st.floats(1e-3, 1e6),
)
def test_the_share_is_always_between_0_and_1(reports: list[tuple[dict[str, float], float]], cores: float) -> None:
    contention = Contention()
    for metrics, seconds in reports:
        contention.observe(metrics, seconds)
        assert math.isfinite(contention.available_share(cores))
        assert 0 < contention.available_share(cores) <= 1
