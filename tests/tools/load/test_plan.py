"""Runs, their phases, and how they are divided among processes."""

from __future__ import annotations

import math
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.load.mix import one_url
from lbdns_tools.load.plan import Closed, Open, Phase, Resolve, Run, parse_resolve, shares, split

MIX = one_url("http://a/")


def run_of(*loads: Closed | Open, max_connections: int = 0) -> Run:
    phases = tuple(Phase(10.0 * place, load, MIX, f"phase {place}") for place, load in enumerate(loads))
    return Run("x", phases, Resolve("once"), False, 10.0, 0.0, max_connections, 1)


def test_how_long_a_run_is() -> None:
    assert run_of(Closed(5, 30.0)).seconds == 30
    assert run_of(Closed(5, 30.0), Open((1, 2, 3), 4.0)).seconds == 30
    assert run_of(Closed(5, 10.0), Open((1, 2, 3), 4.0)).seconds == 22
    assert run_of(Open((1, 2, 3), 4.0, ramp=True)).seconds == 8
    assert run_of(Closed(5, requests=100)).seconds == math.inf
    assert run_of().seconds == 0


def test_how_many_requests_are_expected() -> None:
    assert Open((1, 2, 3), 4.0).expected == 24
    assert Open((1, 2, 3), 4.0, ramp=True).expected == 16
    assert Open((10,), 4.0, requests=7).expected == 7


def test_loads_that_would_never_end_or_begin() -> None:
    with pytest.raises(ValueError, match="need an end"):
        Closed(5)
    with pytest.raises(ValueError, match="no rate"):
        Open((), 1.0)
    with pytest.raises(ValueError, match="two rates"):
        Open((1.0,), 1.0, ramp=True)


CLOSED = st.builds(
    Closed, st.integers(1, 200), st.sampled_from([5.0, 30.0]), st.sampled_from([0, 1, 7, 5000]), st.just(0.5)
)


@given(st.lists(CLOSED, min_size=1, max_size=4), st.integers(1, 9), st.integers(0, 50))
def test_clients_and_requests_are_divided_and_none_is_lost(
    loads: list[Closed], processes: int, max_connections: int
) -> None:
    whole = run_of(*loads, max_connections=max_connections)
    parts = split(whole, processes)
    assert len(parts) == processes
    for place, load in enumerate(loads):
        mine = [part.phases[place].load for part in parts]
        closed = [share for share in mine if isinstance(share, Closed)]
        assert len(closed) == processes
        assert all(share.think_s == load.think_s and share.seconds == load.seconds for share in closed)
        if load.requests:
            assert sum(share.requests for share in closed) == load.requests
            assert all((share.requests > 0) == (share.clients > 0) for share in closed)
            assert sum(share.clients for share in closed) <= load.clients
        if load.requests >= load.clients or not load.requests:
            assert sum(share.clients for share in closed) == load.clients
            assert max(s.clients for s in closed) - min(s.clients for s in closed) <= 1
    limits = [part.max_connections for part in parts]
    if max_connections:
        assert min(limits) >= 1
        assert sum(limits) == max(max_connections, processes)
    else:
        assert limits == [0] * processes
    assert {(part.seed, part.label, part.timeout_s) for part in parts} == {(whole.seed, whole.label, whole.timeout_s)}


def test_one_process_has_all_of_it() -> None:
    whole = run_of(Closed(5, 30.0, 17), Open((1, 2), 4.0), max_connections=9)
    assert split(whole, 1) == [whole]


def test_clients_of_several_phases_go_to_several_processes() -> None:
    parts = split(run_of(*(Closed(1, 5.0) for _ in range(4))), 4)
    assert [sum(phase.load.clients for phase in part.phases if isinstance(phase.load, Closed)) for part in parts] == [
        1, 1, 1, 1,
    ]  # fmt: skip


def test_requests_go_with_clients() -> None:
    requests = [
        (phase.load.clients, phase.load.requests)
        for part in split(run_of(Closed(3, requests=300)), 2)
        for phase in part.phases
        if isinstance(phase.load, Closed)
    ]
    assert requests == [(2, 200), (1, 100)]


def test_an_open_loop_stays_whole() -> None:
    load = Open((100, 200), 5.0, "poisson", requests=700)
    assert [part.phases[0].load for part in split(run_of(load), 3)] == [load] * 3


def test_shares() -> None:
    assert shares(7, 3) == [3, 2, 2]
    assert shares(1, 3) == [1, 0, 0]
    assert shares(0, 2) == [0, 0]


@pytest.mark.parametrize(
    ("text", "resolve"),
    [
        ("request", Resolve("request")),
        ("connection", Resolve("connection")),
        ("every:5s", Resolve("every", 5.0)),
        ("every:1m30s", Resolve("every", 90.0)),
        ("webstone", Resolve("webstone")),
        ("webstone:10s", Resolve("webstone", 10.0)),
        ("ttl", Resolve("ttl")),
        (" once ", Resolve("once")),
        ("system", Resolve("system")),
    ],
)
def test_ways_to_resolve(text: str, resolve: Resolve) -> None:
    assert parse_resolve(text) == resolve


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("conection", "Perhaps you meant 'connection'"),
        ("", "known: request, connection, every"),
        ("every", "Write every:5s"),
        ("every:", "Write every:5s"),
        ("every:5", "no span of time"),
        ("every:0s", "not more than 0"),
        ("webstone:", "no"),
        ("ttl:5s", "behind every and webstone only"),
        ("once:", "behind every and webstone only"),
    ],
)
def test_what_is_no_way_to_resolve(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_resolve(text)


def test_intervals() -> None:
    chance = Random(1)
    assert Resolve("every", 5.0).interval(chance) == 5
    assert Resolve("once").interval(chance) == math.inf
    assert Resolve("request").interval(chance) == 0
    intervals = [Resolve("webstone").interval(chance) for _ in range(1000)]
    assert 2.5 <= min(intervals) < 2.6
    assert 4.9 < max(intervals) <= 5.0
    assert sum(intervals) / 1000 == pytest.approx(3.75, rel=0.02)
    assert 5 <= Resolve("webstone", 10.0).interval(chance) <= 10
