"""Contention: the share of a host's capacity that other programs leave to the web server."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.contention import PERIOD, Contention


def after(
    seconds: int,
    used: float,
    idle: float,
    requests: float,
    cores: float = 1.0,
    of: Contention | None = None,
    tasks: float = 0.0,
    stolen: float | None = None,
) -> float:
    """Return the available share of the host's CPU after ``seconds`` seconds of this use (fractions of all CPUs).

    ``tasks`` is the number of other runnable tasks, and ``stolen`` the share of time in which the host stands still.
    """
    contention = of or Contention()
    for second in range(seconds + 1):
        contention.observe(
            {
                "httpd_cpu_seconds": second * used * cores,
                "cpu_idle": 100 * idle,
                "busy_workers": requests + 1.0,  # one serves the agent's request for the status page
                "run_queue": requests + tasks,
                **({} if stolen is None else {"cpu_steal": 100 * stolen}),
            },
            1.0 if second else 0.0,
        )
    return contention.available_share(cores)


@pytest.mark.parametrize(
    ("used", "idle", "requests", "cores", "left"),
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
def test_the_available_share(used: float, idle: float, requests: float, cores: float, left: float) -> None:
    assert after(60, used, idle, requests, cores) == pytest.approx(left, rel=0.05)


@pytest.mark.parametrize("tasks", [1.0, 4.0, 20.0])
@pytest.mark.parametrize("requests", [1.0, 5.0, 40.0])
@pytest.mark.parametrize("cores", [1.0, 2.0])
def test_tasks_that_share_the_cpus_with_requests_leave_the_whole_capacity(
    tasks: float, requests: float, cores: float
) -> None:
    contention = Contention()
    share = requests / (requests + tasks)
    assert after(60, share, 0.0, requests, cores, of=contention, tasks=tasks) >= 0.9
    assert contention.other_tasks(cores) == pytest.approx(tasks, rel=0.35)


@pytest.mark.parametrize(
    ("tasks", "stolen", "seconds"),
    [
        (3.0, None, 0.0),  # not reported
        (3.0, 0.0, 0.0),
        (3.0, 0.05, 0.000125),  # one request in twenty waits for 2.5 ms
        (3.0, 0.8, 0.032),  # 80% of the requests wait for 40 ms
        (3.0, 1.0, 0.05),
        (3.0, 7.0, 0.05),  # not plausible
        (3.0, -1.0, 0.0),
        (0.0, 0.8, 0.0),  # the web server itself uses up the quota
    ],
)
def test_a_request_waits_for_the_rest_of_the_standstill(tasks: float, stolen: float | None, seconds: float) -> None:
    contention = Contention()
    after(30, 0.1, 0.0, 1.0, of=contention, tasks=tasks, stolen=stolen)
    assert contention.standstill(1.0) == pytest.approx(seconds, rel=1e-3)


def test_standstills_fade_within_seconds() -> None:
    contention = Contention()
    after(30, 0.1, 0.0, 1.0, of=contention, tasks=3.0, stolen=0.8)
    after(6, 0.1, 0.0, 1.0, of=contention, tasks=3.0, stolen=0.0)
    assert contention.standstill(1.0) < 0.001


def test_nobody_waits_before_the_first_report() -> None:
    assert Contention().standstill(1.0) == 0.0


def test_stolen_time_reduces_the_capacity_whatever_the_tasks() -> None:
    contention = Contention()
    left = after(60, 0.1, 0.0, 20.0, of=contention, tasks=20.0)  # 20 of 40 tasks get a tenth of the time
    assert left == pytest.approx(0.1 * 41 / 20, rel=0.05)


def test_tasks_of_another_control_group_count_as_those_that_would_take_as_much_time() -> None:
    contention = Contention()
    assert after(60, 0.5, 0.0, 8.0, of=contention, tasks=1000.0) == 1.0  # half the time is reserved for the web server
    assert 7.0 < contention.other_tasks(1.0) < 300.0


@pytest.mark.parametrize(("requests", "tasks"), [(0.0, 0.0), (9.0, 0.0), (9.0, -5.0), (3.0, 0.4)])
def test_requests_are_no_other_tasks(requests: float, tasks: float) -> None:
    contention = Contention()
    after(10, 0.6, 0.0, requests, of=contention, tasks=tasks)
    assert contention.other_tasks(1.0) == 0.0


def test_the_tasks_are_known_without_requests() -> None:
    contention = Contention()
    after(10, 0.0, 0.0, 0.0, of=contention, tasks=20.0)
    assert contention.other_tasks(1.0) == pytest.approx(20.0)


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
                optional={"listen_queue": st.floats(-1e15, 1e15), "run_queue": number, "cpu_steal": number},
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
        assert 0 <= contention.other_tasks(cores) < math.inf
        assert 0 <= contention.standstill(cores) <= PERIOD / 2 * (1 + 1e-9)
