"""Tests of --search with a simulated server: which rates are tried, and which rate is found."""

from __future__ import annotations

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.load.capacity_search import FailureCriteria
from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop
from lbdns_tools.load.load_study import PlannedRun
from lbdns_tools.load.request_tally import RequestTally
from lbdns_tools.load.result_rows import ResultRow
from lbdns_tools.load.run_statistics import run_statistics
from lbdns_tools.load.search_command import SearchOutcome, run_search
from tests.tools.load.load_command_line import said

URL = "http://a/"
CAPACITY = 500.0  # requests/s of the server, for runs of up to MANY requests; then half of it
MANY = 1000
CROWD = 70  # clients from which on it is slow


def carried(planned: PlannedRun) -> ResultRow:
    """Return the result of a planned run on a simulated server that refuses requests beyond its capacity."""
    load = planned.run.phases[0].load
    if isinstance(load, OpenLoop):
        capacity = CAPACITY if load.requests <= MANY else CAPACITY / 2
        good, latency_s, count = min(1.0, capacity / load.rates[0]), 0.01, 1000
    else:
        good, latency_s, count = 1.0, 0.01 if load.clients <= CROWD else 0.5, 1000
    tally = RequestTally()
    for number in range(count):
        tally.add(0.0, latency_s, 0.0, 0.0, 1000, "192.0.2.1", "" if number < good * count else "refused")
    seconds = count / load.rates[0] if isinstance(load, OpenLoop) else 1.0
    return ResultRow(planned.point, 1, run_statistics(tally, seconds), tally)


def searched(arguments: str) -> tuple[SearchOutcome, list[ResultRow]]:
    rows: list[ResultRow] = []
    return run_search(said(*arguments.split()), carried, rows), rows


def test_a_frontier_of_rates() -> None:
    found, rows = searched(f"{URL} --search rate --connections 500,5000 --range 50..10000 --accuracy 1")
    assert [edge.connections for edge in found.edges] == [500, 5000]
    assert [edge.found.highest for edge in found.edges] == pytest.approx([CAPACITY, CAPACITY / 2], rel=0.025)
    assert len(rows) == sum(len(edge.found.trials) for edge in found.edges)
    assert found.successful
    assert found.as_json() == []


def test_the_most_connections_at_each_rate() -> None:
    found, rows = searched(f"{URL} --search connections --rate 400,100,600 --range 50..20000 --spacing poisson")
    (first, limited), (second, free), (third, never) = found.found
    assert (first, second, third) == (
        "most connections at 400/s", "most connections at 100/s", "most connections at 600/s",
    )  # fmt: skip
    assert limited.highest == pytest.approx(MANY, rel=0.05)
    assert (free.highest, free.ending) == (20000, "top")
    assert (never.highest, never.ending) == (None, "bottom")
    assert not found.successful
    assert [each["highest"] for each in found.as_json()] == [limited.highest, 20000, None]
    assert {row.point.rate_per_s for row in rows} == {400, 100, 600}


def test_the_most_clients() -> None:
    found, rows = searched(f"{URL} --search clients --range 1..1000 --max-latency p99:100ms --seconds 3 --accuracy 1")
    ((what, most),) = found.found
    assert (what, most.highest) == ("most clients", CROWD)
    assert CROWD in {row.point.clients for row in rows}


def test_what_a_trial_is() -> None:
    tried: list[PlannedRun] = []

    def measure(planned: PlannedRun) -> ResultRow:
        tried.append(planned)
        return carried(planned)

    arguments = f"{URL} --search rate --connections 500 --range 100..200 --warm-up 2 --spacing poisson --label x"
    run_search(said(*arguments.split()), measure, [])
    run = tried[0].run
    assert run.phases[0].load == OpenLoop((100.0,), 5.0, "poisson", requests=500)
    assert (run.warm_up_s, run.seconds, tried[0].point.label) == (2, 7, "x")
    run_search(said(*f"{URL} --search clients --range 3..4 --seconds 2 --think 1".split()), measure, [])
    assert tried[-1].run.phases[0].load == ClosedLoop(4, 2.0, think_s=1.0)


def test_criteria() -> None:
    usual, _ = searched(f"{URL} --search clients --range 1..2")
    assert usual.criteria == FailureCriteria()
    strict = "--max-errors 0 --max-latency p95:200ms --min-achieved 99"
    assert searched(f"{URL} --search clients --range 1..2 {strict}")[0].criteria == FailureCriteria(0.0, 95, 0.2, 0.99)


def test_counts_are_whole() -> None:
    with pytest.raises(ConfigError, match=r"must be whole numbers, not 1\.5"):
        searched(f"{URL} --search clients --range 1.5..20")
