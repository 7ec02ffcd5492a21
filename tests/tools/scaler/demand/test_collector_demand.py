"""Demand from the members' reports: counters, restarts, overload, silent members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.demand.collector_demand import CollectorDemand
from lbdns_tools.scaler.demand.demand_source import DemandError


def member(total: float | None = None, rate: float | None = None, **more: Any) -> dict[str, Any]:
    named = {"requests_total": total, "requests_per_s": rate, "cpu_idle": 40.0, "busy_workers": 4.0}
    metrics = {name: value for name, value in named.items() if value is not None} | more.pop("metrics", {})
    state = {"age_s": 0.0, "interval_s": 1.0, "state": "usable", "capacity": 50.0, "measured": True}
    return {**state, "metrics": metrics, **more}


class FakeStatus:
    """A status reader whose members a test sets."""

    def __init__(self, members: Mapping[str, Mapping[str, Any]] | LbdnsError) -> None:
        self.content = members

    async def members(self) -> Mapping[str, Mapping[str, Any]]:
        if isinstance(self.content, LbdnsError):
            raise self.content
        return self.content


async def rates(*documents: Mapping[str, Any]) -> list[float]:
    """Return the demand for documents that are read ten seconds apart."""
    status = FakeStatus({})
    demand = CollectorDemand(status)  # type: ignore[arg-type]
    found = []
    for number, document in enumerate(documents):
        status.content = document
        found.append(round((await demand.read(10.0 * number)).requests_per_s, 3))
    return found


async def test_the_first_reading_takes_the_members_rates() -> None:
    assert await rates({"a": member(500, 21.0), "b": member(80, 11.0)}) == [30.0]  # without the agents' requests


async def test_later_readings_take_the_counters() -> None:
    assert await rates({"a": member(500, 1.0)}, {"a": member(810, 1.0)}) == [0.0, 30.0]


async def test_a_report_that_is_older_counts_for_its_own_time() -> None:
    assert await rates({"a": member(500, 1.0)}, {"a": member(810, 1.0, age_s=5.0)}) == [0.0, 61.0]


async def test_a_web_server_that_restarted_counts_with_its_rate() -> None:
    assert await rates({"a": member(5000, 31.0)}, {"a": member(12, 31.0)}) == [30.0, 30.0]


async def test_connections_that_wait_count_as_arrived() -> None:
    later = member(810, 1.0, metrics={"listen_queue": 100.0})
    assert await rates({"a": member(500, 1.0)}, {"a": later}) == [0.0, 40.0]


async def test_an_overloaded_web_server_that_says_nothing_counts_with_its_last_rate() -> None:
    assert await rates({"a": member(500, 21.0)}, {"a": member()}) == [20.0, 20.0]


async def test_a_host_without_a_web_server_status_counts_nothing() -> None:
    assert await rates({"a": member()}, {"a": member()}) == [0.0, 0.0]


async def test_silent_and_unknown_members_do_not_count() -> None:
    document = {"a": member(5, 9.0, state="silent"), "b": member(5, 9.0, age_s=None), "c": member(5, 9.0)}
    assert await rates(document) == [8.0]


async def test_loads_of_servers() -> None:
    demand = CollectorDemand(FakeStatus({"a": member(5, 9.0), "b": member(5, 9.0, measured=False)}))  # type: ignore[arg-type]
    loads = (await demand.read(0.0)).servers
    assert (loads["a"].cpu_percent, loads["a"].capacity, loads["a"].busy) == (60.0, 50.0, 3.0)
    assert loads["b"].capacity is None


async def test_an_unreachable_collector_is_an_error() -> None:
    demand = CollectorDemand(FakeStatus(LbdnsError("no response")))  # type: ignore[arg-type]
    with pytest.raises(DemandError, match="no response"):
        await demand.read(0.0)
