from __future__ import annotations

import pytest

from lbdns_tools.sim.simulation_jobs import SimulationJob, in_processes
from lbdns_tools.sim.simulation_results import average_runs
from lbdns_tools.sim.simulation_scenario import FARMS, Scenario

SHORT = Scenario(FARMS["T3"], "html", 0.5, warm_up=1.0, duration=3.0)


def halved(number: int) -> float:
    """Return half of ``number``. Defined at module level, so that other processes can import the function."""
    if number < 0:
        raise ValueError(f"{number} is below 0")
    return number / 2


def test_results_come_in_the_order_of_the_jobs() -> None:
    done: list[int] = []
    assert in_processes(halved, [5, 3, 8, 1], 1, done.append) == [2.5, 1.5, 4.0, 0.5]
    assert sorted(done) == [1, 3, 5, 8]


def test_a_failure_is_not_swallowed() -> None:
    with pytest.raises(ValueError, match="-3 is below 0"):
        in_processes(halved, [5, -3, 8], 1)


def test_nothing_to_do() -> None:
    assert in_processes(halved, [], 4) == []


def test_a_cell_is_the_average_of_its_seeds() -> None:
    one, two = in_processes(SimulationJob.run, [SimulationJob(SHORT, "best", 1), SimulationJob(SHORT, "best", 2)], 1)
    cell = average_runs([one, two])
    assert (cell.policy, cell.seeds) == ("best", 2)
    assert cell.mean_ms == pytest.approx((one.mean_ms + two.mean_ms) / 2)
    assert cell.requests == (one.requests + two.requests) / 2
    assert sum(cell.shares.values()) == pytest.approx(1.0)
