from __future__ import annotations

import pytest

from lbdns.choosing.reported_values import counted_cores, loads, plausible


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ([{"busy_workers": 3.0, "run_queue": 1.0}, {"run_queue": 7.0}], (3.0, 7.0)),
        ([{"busy_workers": 1.0, "run_queue": 9.0}, {"busy_workers": 2.0}], (9.0, 2.0)),
        ([{"busy_workers": 6.0}, {}], (6.0, 12.0)),  # as full for its capacity as the others
        # Who waits to be accepted is at work as well
        ([{"busy_workers": 8.0, "listen_queue": 30.0, "run_queue": 9.0}, {"run_queue": 2.0}], (38.0, 2.0)),
        ([{"busy_workers": 8.0, "listen_queue": 1.0, "run_queue": 12.0}, {"run_queue": 2.0}], (12.0, 2.0)),
        ([{"run_queue": 4.0, "listen_queue": 30.0}, {"run_queue": 4.0, "listen_queue": 1.0}], (30.0, 4.0)),
        (
            [{"busy_workers": 3.0, "listen_queue": 0.0}, {"listen_queue": 0.0}],
            (3.0, 6.0),
        ),  # an empty queue tells little
        ([{}, {}], (0.0, 0.0)),
    ],
)
def test_loads(metrics: list[dict[str, float]], expected: tuple[float, ...]) -> None:
    assert loads(metrics, [1.0, 2.0]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([1e5, 3.0], 3.0),  # of two, the emptier one decides
        ([1e5, 3.0, 3.0], 3.0),
        ([0.0, 3.0, 3.0], 3.0),
        ([2.0, 3.0, 4.0], 3.0),
    ],
)
def test_no_member_decides_the_load_of_those_that_report_none(known: list[float], expected: float) -> None:
    metrics: list[dict[str, float]] = [*({"busy_workers": load} for load in known), {}]
    assert loads(metrics, [1.0] * len(metrics))[-1] == pytest.approx(expected)
    assert loads([{}, {"busy_workers": 3.0}], [1.0, 0.0])[0] == 0.0


def test_impossible_values_are_removed() -> None:
    told = {"cpu_count": 2.0, "requests_total": 1e12, "cpu_idle": 0.0}
    assert plausible(told) is told
    assert plausible({**told, "cpu_count": 2.3e-308}) == {"requests_total": 1e12, "cpu_idle": 0.0}
    assert plausible({**told, "requests_per_s": -300.0}) == told
    assert plausible({**told, "cpu_count": 0.0, "busy_workers": 1.7e308}) == {"requests_total": 1e12, "cpu_idle": 0.0}


@pytest.mark.parametrize(
    ("reported", "most", "counted"),
    [
        ([2.0, 4.0, 8.0], 0.0, [2.0, 4.0, 8.0]),
        ([2.0, 2.0, 1e6], 0.0, [2.0, 2.0, 8.0]),
        ([2.0, 1e6], 0.0, [2.0, 8.0]),  # the smaller of two decides
        ([2.0, 2.0, 1e6], 64.0, [2.0, 2.0, 64.0]),
        ([2.0, None, 4.0], 0.0, [2.0, 3.0, 4.0]),
        ([2.0, 1e-3, None], 0.0, [2.0, 1e-3, 1.0005]),  # nor does the smaller one lower the other
        ([2.0, 2.0, 1e6, None], 0.0, [2.0, 2.0, 8.0, 2.0]),
        ([2.0, 2.0, 1e-3, None], 0.0, [2.0, 2.0, 1e-3, 2.0]),
        ([None, 0.0], 0.0, [1.0, 1.0]),
        ([], 0.0, []),
    ],
)
def test_cores_that_count(reported: list[float | None], most: float, counted: list[float]) -> None:
    assert counted_cores(reported, most) == counted
