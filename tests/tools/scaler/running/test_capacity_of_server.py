"""The capacity of one server, from what is known of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lbdns_tools.scaler.demand.demand_source import ServerLoad
from lbdns_tools.scaler.life_cycle.server_record import ServerRecord
from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.running.capacity_of_server import LEAST, ServerCapacity


def servers(*benchmarked: float, state: ServerState = ServerState.IN_SERVICE) -> list[ServerRecord]:
    return [ServerRecord(f"web-{at}", state, 0.0, capacity=each) for at, each in enumerate(benchmarked, 1)]


#: Configured capacity, loads, records, demand -> capacity
CASES: list[tuple[float, Sequence[ServerLoad], Sequence[ServerRecord], float, float]] = [
    (25.0, [ServerLoad(99.0, capacity=80.0)], servers(70.0), 99.0, 25.0),
    (0.0, [ServerLoad(9.0, capacity=80.0), ServerLoad(9.0, capacity=40.0)], servers(70.0, 70.0), 18.0, 60.0),
    (0.0, [ServerLoad(9.0, capacity=0.0)], servers(70.0, 0.0), 9.0, 70.0),
    (0.0, [ServerLoad(33.0), ServerLoad(44.0)], servers(0.0, 0.0), 77.0, 44.0),
    (0.0, [], servers(0.0, 0.0), 300.0, 150.0),
    (0.0, [], servers(0.0, 0.0, state=ServerState.STARTING), 300.0, 300.0),
    (0.0, [], [], 0.0, LEAST),
]


@pytest.mark.parametrize(("configured", "loads", "records", "rate", "expected"), CASES)
def test_estimate(
    configured: float, loads: Sequence[ServerLoad], records: Sequence[ServerRecord], rate: float, expected: float
) -> None:
    by_name = {f"web-{at}": load for at, load in enumerate(loads)}
    assert ServerCapacity(configured).estimate(by_name, records, rate) == expected


def test_the_highest_rate_so_far_counts() -> None:
    capacity = ServerCapacity(0.0)
    found = [capacity.estimate({"web-1": ServerLoad(rate)}, servers(0.0), rate) for rate in (5.0, 40.0, 12.0)]
    assert found == [LEAST, 40.0, 40.0]
