"""Checks that tallies count every request once, including failures, and can be added up across processes."""

from __future__ import annotations

import json
import pickle
from random import Random

import pytest

from lbdns_tools.load.request_tally import ERRORS, LOCAL_CAUSES, RequestTally


def some(seed: int, requests: int = 200) -> RequestTally:
    """Return a tally of synthetic requests with random failures of every kind."""
    chance, tally = Random(seed), RequestTally()
    for _ in range(requests):
        error = chance.choice(ERRORS) if chance.random() < 0.3 else ""
        server = "" if error == "dns" else chance.choice(("198.18.0.1", "198.18.0.2"))
        tally.add(chance.uniform(0, 9), chance.expovariate(20), 0.001, 0.002, 1000, server, error, 0.0001)
        if error == "local":
            tally.add_local(chance.choice(LOCAL_CAUSES))
        elif not error:
            tally.add_response(chance.choice((200, 304)), 0.01, 0.02)
    return tally


def test_failures_are_in_every_figure() -> None:
    tally = RequestTally()
    tally.add(0.2, 0.1, 0.001, 0.002, 1024, "a")
    tally.add(0.9, 5.0, 0.0, 0.002, 100, "b", "timeout")
    tally.add(1.5, 0.3, 2.0, 0.0, 0, "", "dns")
    assert (tally.requests, tally.ok, tally.failed, tally.bytes) == (3, 1, 2, 1124)
    assert tally.latency.count == 3
    assert tally.latency.percentile(100) == 5.0
    assert tally.latency.sum == pytest.approx(5.4)
    assert tally.failed_latency.mean == pytest.approx(2.65)
    assert {error: count for error, count in tally.errors.items() if count} == {"timeout": 1, "dns": 1}
    assert tally.servers == {"a": [1, 1], "b": [1, 0]}
    assert tally.series() == [(0, 2, 1, 0), (1, 1, 0, 1), *((s, 0, 0, 0) for s in (2, 3, 4)), (5, 0, 0, 1)]


def test_only_what_was_done_has_a_time() -> None:
    tally = RequestTally()
    tally.add(0.0, 0.1, 0.004, 0.002, 10, "a")
    tally.add(0.1, 0.1, 0.0, 0.0, 10, "a")  # on the same connection
    tally.add(0.2, 0.1, 0.0, 0.01, 0, "a", "refused")
    tally.add(0.2, 0.1, 0.0, 0.03, 0, "a", "4xx")
    assert tally.connections == tally.connect.count == 2
    assert tally.dns.mean == 0.004
    assert tally.late.longest == 0.0


def test_an_unknown_class_of_error_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        RequestTally().add(0.0, 0.1, 0.0, 0.0, 0, "", "tired")
    with pytest.raises(KeyError):
        RequestTally().add_local("tired")


def test_processes_add_up() -> None:
    whole, parts = RequestTally(), [some(1), some(2), RequestTally()]
    for part in parts:
        whole.merge(pickle.loads(pickle.dumps(part)))
    assert whole.requests == 400
    assert whole.ok == parts[0].ok + parts[1].ok
    assert sum(whole.errors.values()) == whole.failed == whole.failed_latency.count
    assert sum(whole.local.values()) == whole.errors["local"]
    assert sum(whole.statuses.values()) == whole.response.count == whole.transfer.count == whole.ok
    assert sum(requests for requests, _ in whole.servers.values()) == 400 - whole.errors["dns"]
    assert sum(ok for _, ok in whole.servers.values()) == whole.ok
    for column, count in ((1, 400), (2, whole.ok), (3, whole.failed)):
        assert sum(moment[column] for moment in whole.series()) == count
    whole.add(20.5, 0.1, 0.0, 0.0, 0, "198.18.0.9")  # it goes on counting
    assert whole.servers["198.18.0.9"] == [1, 1]


def test_state_is_whole() -> None:
    tally = some(3)
    tally.retried = 4
    state = json.loads(json.dumps(tally.state(), allow_nan=False))
    assert (state["requests"], state["ok"], state["retried"]) == (200, tally.ok, 4)
    assert (state["bytes"], state["connections"]) == (tally.bytes, tally.connections)
    assert state["errors"] == tally.errors
    assert state["local"] == tally.local
    assert dict(state["statuses"]) == tally.statuses
    assert {server: counts for server, *counts in state["servers"]} == tally.servers
    assert {second: counts for second, *counts in state["seconds"]} == tally.seconds
    for name in ("latency", "failed_latency", "dns", "connect", "late", "response", "transfer"):
        assert state[name] == getattr(tally, name).state()


def test_nothing_has_no_series() -> None:
    assert RequestTally().series() == []


@pytest.mark.parametrize("requests", [0, 200])
def test_a_tally_is_read_as_it_was_written(requests: int) -> None:
    tally = some(5, requests)
    found = RequestTally.from_state(json.loads(json.dumps(tally.state(), allow_nan=False)))
    assert found.state() == tally.state()
    assert found.latency.shortest == tally.latency.shortest
    found.merge(some(6))
    tally.merge(some(6))
    assert found.state() == tally.state()
