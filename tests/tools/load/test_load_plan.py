"""Runs, their phases, and how they are divided among processes."""

from __future__ import annotations

import math
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.load.load_plan import (
    ClosedLoop,
    LoadPhase,
    LoadRun,
    OpenLoop,
    ResolveRule,
    parse_resolve_rule,
    shares,
    split_run,
)
from lbdns_tools.load.request_mix import one_url

MIX = one_url("http://a/")


def run_of(*loads: ClosedLoop | OpenLoop, max_connections: int = 0) -> LoadRun:
    phases = tuple(LoadPhase(10.0 * place, load, MIX, f"phase {place}") for place, load in enumerate(loads))
    return LoadRun(ResolveRule("once"), max_connections=max_connections, phases=phases)


def test_how_long_a_run_is() -> None:
    assert run_of(ClosedLoop(5, 30.0)).seconds == 30
    assert run_of(ClosedLoop(5, 30.0), OpenLoop((1, 2, 3), 4.0)).seconds == 30
    assert run_of(ClosedLoop(5, 10.0), OpenLoop((1, 2, 3), 4.0)).seconds == 22
    assert run_of(OpenLoop((1, 2, 3), 4.0, ramp=True)).seconds == 8
    assert run_of(ClosedLoop(5, requests=100)).seconds == math.inf
    assert run_of().seconds == 0


def test_how_many_requests_are_expected() -> None:
    assert OpenLoop((1, 2, 3), 4.0).expected == 24
    assert OpenLoop((1, 2, 3), 4.0, ramp=True).expected == 16
    assert OpenLoop((10,), 4.0, requests=7).expected == 7


def test_loads_that_would_never_end_or_begin() -> None:
    with pytest.raises(ValueError, match="require an end"):
        ClosedLoop(5)
    with pytest.raises(ValueError, match="a rate is required"):
        OpenLoop((), 1.0)
    with pytest.raises(ValueError, match="two rates"):
        OpenLoop((1.0,), 1.0, ramp=True)


CLOSED = st.builds(
    ClosedLoop, st.integers(1, 200), st.sampled_from([5.0, 30.0]), st.sampled_from([0, 1, 7, 5000]), st.just(0.5)
)


@given(st.lists(CLOSED, min_size=1, max_size=4), st.integers(1, 9), st.integers(0, 50))
def test_clients_and_requests_are_divided_and_none_is_lost(
    loads: list[ClosedLoop], processes: int, max_connections: int
) -> None:
    whole = run_of(*loads, max_connections=max_connections)
    parts = split_run(whole, processes)
    assert len(parts) == processes
    for place, load in enumerate(loads):
        mine = [part.phases[place].load for part in parts]
        closed = [share for share in mine if isinstance(share, ClosedLoop)]
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
    whole = run_of(ClosedLoop(5, 30.0, 17), OpenLoop((1, 2), 4.0), max_connections=9)
    assert split_run(whole, 1) == [whole]


def test_clients_of_several_phases_go_to_several_processes() -> None:
    parts = split_run(run_of(*(ClosedLoop(1, 5.0) for _ in range(4))), 4)
    for part in parts:
        assert sum(phase.load.clients for phase in part.phases if isinstance(phase.load, ClosedLoop)) == 1


def test_requests_go_with_clients() -> None:
    requests = [
        (phase.load.clients, phase.load.requests)
        for part in split_run(run_of(ClosedLoop(3, requests=300)), 2)
        for phase in part.phases
        if isinstance(phase.load, ClosedLoop)
    ]
    assert requests == [(2, 200), (1, 100)]


def test_an_open_loop_stays_whole() -> None:
    load = OpenLoop((100, 200), 5.0, "poisson", requests=700)
    assert [part.phases[0].load for part in split_run(run_of(load), 3)] == [load] * 3


def test_shares() -> None:
    assert shares(7, 3) == [3, 2, 2]
    assert shares(1, 3) == [1, 0, 0]
    assert shares(0, 2) == [0, 0]


@pytest.mark.parametrize(
    ("text", "resolve"),
    [
        ("request", ResolveRule("request")),
        ("connection", ResolveRule("connection")),
        ("every:5s", ResolveRule("every", 5.0)),
        ("every:1m30s", ResolveRule("every", 90.0)),
        ("webstone", ResolveRule("webstone")),
        ("webstone:10s", ResolveRule("webstone", 10.0)),
        ("ttl", ResolveRule("ttl")),
        (" once ", ResolveRule("once")),
        ("system", ResolveRule("system")),
    ],
)
def test_ways_to_resolve(text: str, resolve: ResolveRule) -> None:
    assert parse_resolve_rule(text) == resolve


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("conection", "Perhaps you meant 'connection'"),
        ("", "known: request, connection, every"),
        ("every", "such as every:5s"),
        ("every:", "such as every:5s"),
        ("every:5", "not a valid duration"),
        ("every:0s", "must be more than 0"),
        ("webstone:", "must be more than 0"),
        ("ttl:5s", "only every and webstone accept"),
        ("once:", "only every and webstone accept"),
    ],
)
def test_what_is_no_way_to_resolve(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_resolve_rule(text)


def test_intervals() -> None:
    chance = Random(1)
    assert ResolveRule("every", 5.0).interval(chance) == 5
    assert ResolveRule("once").interval(chance) == math.inf
    assert ResolveRule("request").interval(chance) == 0
    intervals = [ResolveRule("webstone").interval(chance) for _ in range(1000)]
    assert 2.5 <= min(intervals) < 2.6
    assert 4.9 < max(intervals) <= 5.0
    assert sum(intervals) / 1000 == pytest.approx(3.75, rel=0.02)
    assert 5 <= ResolveRule("webstone", 10.0).interval(chance) <= 10
