"""Tests of load runs: their phases, the times at which requests are due, and how runs are divided among processes."""

from __future__ import annotations

import heapq
import math
import re
from dataclasses import replace
from itertools import islice, pairwise
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
    arrivals,
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


def test_loads_that_would_never_end_or_begin() -> None:
    with pytest.raises(ValueError, match="requires a limit"):
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
        ("1999", ResolveRule("1999")),
        ("1999:20s", ResolveRule("1999", 20.0)),
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
        ("every", "for example every:5s"),
        ("every:", "for example every:5s"),
        ("every:5", "not a valid duration"),
        ("every:0s", "must be more than 0"),
        ("webstone:", "must be more than 0"),
        ("ttl:5s", "only the modes 'every', 'webstone' and '1999' accept"),
        ("once:", "only the modes 'every', 'webstone' and '1999' accept"),
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


def test_half_of_the_intervals_of_1999_are_the_shortest() -> None:
    chance = Random(1)
    intervals = [ResolveRule("1999", 100.0).interval(chance) for _ in range(2000)]
    assert min(intervals) == 50.0
    assert 99 < max(intervals) <= 100.0
    assert intervals.count(50.0) / 2000 == pytest.approx(49 / 99, abs=0.03)
    longer = [interval for interval in intervals if interval > 50]
    assert sum(longer) / len(longer) == pytest.approx(75, rel=0.02)


RATES = st.lists(st.sampled_from([0.0, 0.1, 1.0, 3.7, 10.0, 50.0]), min_size=2, max_size=5).map(tuple)
LOADS = st.builds(
    OpenLoop,
    RATES,
    st.sampled_from([0.5, 1.0, 3.0, 10.0]),
    st.sampled_from(["even", "poisson"]),
    st.booleans(),
    st.sampled_from([0, 1, 20, 10_000]),
)


def starts(load: OpenLoop, part: int = 0, parts: int = 1, seed: int = 1) -> list[float]:
    return list(arrivals(load, Random(seed), part, parts))


def test_evenly_spaced() -> None:
    assert starts(OpenLoop((2.0,), 2.0)) == [0.0, 0.5, 1.0, 1.5]
    assert starts(OpenLoop((2.0, 4.0), 1.0)) == [0.0, 0.5, 1.0, 1.25, 1.5, 1.75]
    assert starts(OpenLoop((2.0, 0.0, 1.0), 2.0)) == [0.0, 0.5, 1.0, 1.5, 4.0, 5.0]


def test_the_distance_goes_on_over_a_change_of_rate() -> None:
    # Three quarters of a request are left over from the first step: the next starts a quarter of 0.5 s into the second
    assert starts(OpenLoop((0.75, 2.0), 1.0)) == pytest.approx([0.0, 1.125, 1.625])


@pytest.mark.parametrize(("rate", "seconds"), [(0.1, 30.0), (1.0, 1200.0), (1000.0, 7.0), (3.3, 100.0)])
def test_as_many_as_rate_times_seconds(rate: float, seconds: float) -> None:
    assert len(starts(OpenLoop((rate,), seconds))) == round(rate * seconds)
    assert len(starts(OpenLoop((rate,) * 10, seconds / 10))) == round(rate * seconds)


def test_a_ramp() -> None:
    found = starts(OpenLoop((0.0, 100.0), 10.0, ramp=True))
    assert len(found) == 500
    assert len([start for start in found if start < 5.0]) == 125  # a quarter of them in the first half
    down = starts(OpenLoop((100.0, 0.0), 10.0, ramp=True))
    assert len([start for start in down if start < 5.0]) == 375
    there_and_back = starts(OpenLoop((10.0, 200.0, 10.0), 10.0, ramp=True))
    assert len(there_and_back) == 2100


def test_at_most_so_many() -> None:
    assert starts(OpenLoop((2.0,), 100.0, requests=3)) == [0.0, 0.5, 1.0]
    assert len(starts(OpenLoop((2.0,), 100.0, "poisson", requests=3))) == 3


def test_poisson() -> None:
    found = starts(OpenLoop((100.0,), 200.0, "poisson"))
    assert len(found) == pytest.approx(20_000, rel=0.03)
    gaps = [after - before for before, after in pairwise(found)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert variance / mean**2 == pytest.approx(1.0, abs=0.05)  # exponential
    stepped = starts(OpenLoop((50.0, 150.0), 100.0, "poisson"))
    assert len([start for start in stepped if start < 100]) == pytest.approx(5_000, rel=0.05)
    assert len(stepped) == pytest.approx(20_000, rel=0.03)


@given(LOADS, st.integers(0, 5), st.integers(1, 7))
def test_all_parts_together_are_the_whole(load: OpenLoop, seed: int, parts: int) -> None:
    whole = starts(load, seed=seed)
    dealt = [starts(load, part, parts, seed) for part in range(parts)]
    assert list(heapq.merge(*dealt)) == whole
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
    assert all(mine == whole[part::parts] for part, mine in enumerate(dealt))


@given(LOADS, st.integers(0, 5))
def test_ascending_and_within_the_steps(load: OpenLoop, seed: int) -> None:
    found = starts(load, seed=seed)
    assert found == sorted(found)
    assert all(0 <= start <= load.length_s for start in found)
    if load.spacing == "even":
        expected = sum((first + last) / 2 * load.step_s for first, last in load.segments)
        assert len(found) == pytest.approx(min(expected, load.requests or expected), abs=1)
    if load.requests:
        assert len(found) <= load.requests
        assert found == starts(replace(load, requests=0), seed=seed)[: load.requests]


@pytest.mark.parametrize("load", [OpenLoop((0.0,), 10.0), OpenLoop((0.0, 0.0), 10.0, ramp=True), OpenLoop((5.0,), 0.0)])
def test_nothing_to_send_ends(load: OpenLoop) -> None:
    assert starts(load) == []
    assert starts(replace(load, spacing="poisson")) == []


def test_nothing_is_worked_out_ahead() -> None:
    endless = arrivals(OpenLoop((1e6,), 1e6, "poisson"), Random(1))
    assert len(list(islice(endless, 5))) == 5


def test_the_random_numbers_are_those_given() -> None:
    load = OpenLoop((10.0,), 10.0, "poisson")
    first, again, other = (list(arrivals(load, Random(seed))) for seed in (1, 1, 2))
    assert first == again
    assert first != other
