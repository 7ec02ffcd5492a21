"""Tests of the policy reactive: every row of the run of 2014, and the mended rules."""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path

import pytest

from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.policies.reactive import Reactive
from lbdns_tools.scaler.policies.scaling_policy import Demand, FarmView, ScalingRound, ServerView
from lbdns_tools.scaler.policies.session_counter import CounterReading, session_rate
from tests.tools.scaler.policies.farm_views import servers, view

RUN = Path(__file__).parent / "webscaler_2014.csv"
ROWS = list(csv.DictReader(RUN.read_text().splitlines()))


def reading(row: dict[str, str]) -> CounterReading:
    return CounterReading(datetime.fromisoformat(row["date"]).timestamp(), int(row["accumulated_sessions"]))


def test_the_run_has_25_rows() -> None:
    assert len(ROWS) == 25


@pytest.mark.parametrize("at", range(1, 25))
def test_rates_of_2014(at: int) -> None:
    rate = session_rate(reading(ROWS[at - 1]), reading(ROWS[at]), reloaded=ROWS[at]["reloaded"] == "1")
    assert rate.per_s == int(ROWS[at]["sessions_per_s"])
    assert rate.sessions == int(ROWS[at]["diffpt"])


def test_servers_of_2014() -> None:
    """Let the policy decide all rounds of the run, and compare the servers and the reasons with each row."""
    count, stopped = 2, 0
    rounds: list[ScalingRound] = []
    for row in ROWS:
        assert count == int(row["active"]), row
        rate, time = float(row["sessions_per_s"]), reading(row).time
        machines = (*servers(count), *servers(stopped, ServerState.STOPPED))
        seen = FarmView(time, Demand(time, rate), machines, 30.0, 2, 13, tuple(rounds))
        found = Reactive(as_of_2014=True).recommend(seen)
        if len(rounds) >= 2:
            assert f"need {row['needed_servers']} server" in found.reason
        rounds.append(ScalingRound(seen.demand, count, found.servers, found.servers))
        if int(row["needed_servers"] or count) < count:
            stopped = min(1, stopped)  # stopped servers but one are deleted
        stopped = stopped + count - found.servers if found.servers < count else max(0, stopped - found.servers + count)
        count = found.servers
    assert count == 2


PAST = (ScalingRound(Demand(0.0, 0.0), 2, 2, 2),) * 2


@pytest.mark.parametrize(
    ("active", "stopped", "rate", "as_of_2014", "mended"),
    [
        (2, 0, 45.0, 5, 5),
        (2, 1, 45.0, 3, 5),  # a single stopped server is started, and none is created
        (2, 2, 45.0, 5, 5),
        (12, 0, 400.0, 13, 13),  # the quota
        (13, 0, 400.0, 13, 13),
        (3, 0, 5.0, 3, 2),  # with 3 active and 1 needed, none is removed
        (3, 0, 0.0, 2, 2),
        (6, 0, 5.0, 3, 2),  # 6 - (1 + 2) are removed
        (6, 0, 35.0, 4, 4),
        (2, 0, 0.0, 2, 2),
        (1, 0, 5.0, 1, 2),  # fewer than the minimum: the program added none
        (4, 0, 40.0, 4, 4),
        (4, 0, 40.5, 5, 5),
    ],
)
def test_slips_and_mended_rules(active: int, stopped: int, rate: float, as_of_2014: int, mended: int) -> None:
    more = servers(stopped, ServerState.STOPPED)
    seen = view(rate, active, PAST, minimum=2, maximum=13, capacity=10.0, more=more)
    assert Reactive(as_of_2014=True).recommend(seen).servers == as_of_2014
    assert Reactive().recommend(seen).servers == mended


def test_the_rate_is_rounded_before_the_division_as_of_2014() -> None:
    seen = view(7.2, 2, PAST, maximum=13, capacity=7.5)
    assert Reactive(per_server=7.5, as_of_2014=True).recommend(seen).servers == 2  # ceil(8 / 7.5)
    assert Reactive().recommend(seen).servers == 1  # ceil(7.2 / 7.5)


def test_the_mended_policy_decides_at_once() -> None:
    assert Reactive(as_of_2014=True).recommend(view(100.0, 2, maximum=13, capacity=10.0)).servers == 2
    found = Reactive().recommend(view(100.0, 2, maximum=13, capacity=10.0))
    assert (found.servers, found.reason) == (10, "100.0 requests/s need 10 servers at 10.0 requests/s each.")


def test_the_last_servers_go_first() -> None:
    names = ("node-9", "node-10", "node-1", "node-2")
    machines = tuple(ServerView(name, ServerState.IN_SERVICE, 0.0, 1.0) for name in names)
    seen = FarmView(0.0, Demand(0.0, 5.0), machines, 10.0, 2, 13)
    assert Reactive().recommend(seen).remove == ("node-10", "node-9", "node-2", "node-1")
