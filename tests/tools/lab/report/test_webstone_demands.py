"""Tests of the requirements for load-aware selection relative to round robin, with synthetic outcomes."""

from __future__ import annotations

from typing import Any

import pytest

from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report.outcome_index import OutcomeIndex, PointKey
from lbdns_tools.lab.report.ratio_scatter import ChanceRange
from lbdns_tools.lab.report.webstone_demands import (
    StudyDemand,
    agents_demand,
    agents_mean,
    alone,
    busiest_agent,
    compare,
    demands,
    of_the_sum,
    sum_alone,
    verdict,
)
from tests.tools.lab.presets.fake_lab import about, made

HOSTS = ("bilbo", "frodo", "gandalf")
KEY = PointKey("unequal", "best", "html", "connection", 20)


def pair(
    clients: int, throughput: float, p95: float, mean: float = 0.05, *, repetition: int = 1, **where: Any
) -> list[MeasuredOutcome]:
    """Return an outcome of best with these figures, and one of round robin (100 requests/s, p95 0.1 s, mean 0.05 s)."""
    return [
        made("round_robin", clients=clients, repetition=repetition, **where),
        made("best", clients=clients, throughput=throughput, p95=p95, mean=mean, repetition=repetition, **where),
    ]


def repeated(throughputs: list[list[float]]) -> list[MeasuredOutcome]:
    """Return outcomes with WebStone's resolve intervals: one repetition per throughput, at 20, 30, ... clients."""
    return [
        outcome
        for place, each in enumerate(throughputs)
        for number, throughput in enumerate(each, 1)
        for outcome in pair(20 + 10 * place, throughput, 0.05, repetition=number, resolve="webstone")
    ]


def by_what(outcomes: list[MeasuredOutcome]) -> dict[str, StudyDemand]:
    return {demand.what: demand for demand in demands(outcomes, HOSTS)}


def test_points_are_compared_where_both_were_measured() -> None:
    outcomes = [*pair(20, 250.0, 0.05, 0.02), made("best", clients=30), made("round_robin", clients=40)]
    (compared,) = compare(OutcomeIndex(outcomes), "best", "round_robin", HOSTS)
    assert compared.key == KEY
    assert (compared.throughput, compared.p95, compared.mean) == (2.5, about(0.5), about(0.4))
    assert (compared.work, compared.pace) == (None, None), "no host's CPU was read"


def test_throughput_is_work_and_pace() -> None:
    outcomes = [
        made("round_robin", throughput=100.0, cpu={"bilbo": 10.0, "frodo": 5.0, "gandalf": 15.0}),
        made("best", throughput=180.0, cpu={"bilbo": 10.0, "frodo": 7.0, "gandalf": 28.0, "gandalf-agent": 0.5}),
    ]
    (compared,) = compare(OutcomeIndex(outcomes), "best", "round_robin", HOSTS)
    assert (compared.work, compared.pace) == (about(1.5), about(1.2))


def test_a_choice_per_connection_on_unequal_hosts() -> None:
    found = by_what([*pair(20, 260.0, 0.05), *pair(30, 150.0, 0.099)])
    where = "unequal hosts, lookups per connection"
    mean, least, p95 = (
        found[f"{where}: {what}"]
        for what in (
            "throughput of 'best' / 'round_robin', mean",
            "throughput of 'best' / 'round_robin', minimum",
            "p95 of 'best' / 'round_robin', maximum",
        )
    )
    assert (mean.value, mean.bound, mean.points, mean.verdict) == (about(2.05), 2.0, 2, "met")
    assert (least.value, least.verdict) == (1.5, "met")
    assert (p95.value, p95.verdict, p95.wanted) == (about(0.99), "met", "below 1")


LEAST = "unequal hosts, lookups at WebStone's intervals: throughput of 'best' / 'round_robin', minimum"


def test_ratios_of_each_repetition_are_kept() -> None:
    outcomes = [*repeated([[90.0, 120.0]]), made("best", resolve="webstone", repetition=3)]
    (compared,) = compare(OutcomeIndex(outcomes), "best", "round_robin", HOSTS)
    assert compared.repeated == {"throughput": (0.9, 1.2), "p95": (0.5, 0.5), "mean": (1.0, 1.0)}


def test_a_least_that_misses_by_chance_alone_is_said_to_be_so() -> None:
    least = by_what(repeated([[94.0, 114.0], [112.0, 96.0], [106.0, 90.0], [115.0, 93.0]] * 3))[LEAST]
    assert (least.value, least.mean, least.points) == (about(0.98), about(1.025), 12)
    below = by_what(repeated([[92.0, 112.0], [112.0, 96.0], [106.0, 88.0], [115.0, 93.0]] * 3))[LEAST]
    assert below.value == about(0.97)
    assert below.by_chance is not None
    assert below.by_chance.low < 0.97 < below.by_chance.high < 1.0
    assert (least.verdict, below.verdict) == ("met", "within chance")


@pytest.mark.parametrize(
    ("value", "at_least", "verdict"),
    [
        (0.92, True, "not met"),  # further out than chance
        (0.94, True, "within chance"),
        (0.975, True, "within chance"),  # nearer to the mean than chance would be
        (0.98, True, "met"),
        (1.08, False, "not met"),
        (1.03, False, "within chance"),
    ],
)
def test_further_out_than_by_chance_is_beyond_the_far_end(value: float, at_least: bool, verdict: str) -> None:
    by_chance = ChanceRange(0.93, 0.97) if at_least else ChanceRange(1.04, 1.07)
    bound, mean = (0.98, 0.99) if at_least else (1.02, 1.01)
    assert StudyDemand("", value, bound, at_least, 27, mean=mean, by_chance=by_chance).verdict == verdict


@pytest.mark.parametrize(
    "throughputs",
    [
        [*[[101.0, 105.0]] * 11, [96.0, 98.0]],  # one point is worse by more than the scatter
        [[94.0, 100.0]] * 12,  # all are
        [[90.0], *[[110.0]] * 11],  # how far they scatter is not known
    ],
)
def test_a_least_that_misses_by_more_is_not_met(throughputs: list[list[float]]) -> None:
    assert by_what(repeated(throughputs))[LEAST].verdict == "not met"


def test_beside_the_hosts_alone_each_repetition_has_its_own_sum() -> None:
    singles = [
        made("alone", resolve="", clients=20, throughput=throughput, host=host, repetition=number)
        for host in HOSTS
        for number, throughput in ((1, 30.0), (2, 35.0))
    ]
    found = by_what([*repeated([[90.0, 84.0]] * 9), *singles])
    of_alone = found[
        "unequal hosts, lookups at WebStone's intervals: throughput of 'best' / sum of single hosts, minimum"
    ]
    assert of_alone.value == about(87 / 97.5)
    assert of_alone.by_chance is not None, "1.0 and 0.8 at each point"
    assert of_alone.verdict == "not met", "neither is the mean"


def test_a_p95_that_is_the_same_is_not_lower() -> None:
    found = by_what(pair(20, 140.0, 0.1))
    missed = {what for what, demand in found.items() if demand.verdict == "not met"}
    where = "unequal hosts, lookups per connection"
    assert missed == {
        f"{where}: throughput of 'best' / 'round_robin', mean",
        f"{where}: throughput of 'best' / 'round_robin', minimum",
        f"{where}: p95 of 'best' / 'round_robin', maximum",
    }


def test_webstones_intervals_on_unequal_hosts() -> None:
    singles = [
        made("single", resolve="", clients=20, throughput=10.0, host="frodo"),
        made("alone", resolve="", clients=20, throughput=20.0, host="bilbo"),
        made("alone", resolve="", clients=20, throughput=74.0, host="gandalf"),
    ]
    found = by_what([*pair(20, 99.0, 0.08, resolve="webstone"), *singles])
    where = "unequal hosts, lookups at WebStone's intervals"
    least = found[f"{where}: throughput of 'best' / 'round_robin', minimum"]
    of_alone = found[f"{where}: throughput of 'best' / sum of single hosts, minimum"]
    p95 = found[f"{where}: p95 of 'best' / 'round_robin', mean"]
    assert (least.value, least.verdict) == (0.99, "met")
    assert (of_alone.value, of_alone.verdict, of_alone.wanted) == (about(99 / 104), "met", "at least 0.95")
    assert (p95.value, p95.verdict) == (about(0.8), "met")


@pytest.mark.parametrize("resolve", ["connection", "webstone"])
def test_equal_hosts(resolve: str) -> None:
    found = by_what([*pair(20, 99.0, 0.1, 0.053, farm="equal", resolve=resolve)])
    verdicts = {what: demand.verdict for what, demand in found.items() if demand.value is not None}
    way = {"connection": "per connection", "webstone": "at WebStone's intervals"}[resolve]
    assert verdicts == {
        f"equal hosts, lookups {way}: throughput of 'best' / 'round_robin', minimum": "met",
        f"equal hosts, lookups {way}: mean latency of 'best' / 'round_robin', maximum": "not met",
    }


def test_what_was_not_measured_is_said_to_be_so() -> None:
    found = demands([], HOSTS)
    assert len(found) == 11
    assert {(demand.value, demand.points, demand.verdict) for demand in found} == {(None, 0, "not measured")}


def test_a_best_that_got_nothing_through_fails() -> None:
    found = by_what([*pair(20, 0.0, 9.0), *pair(30, 250.0, 0.05)])
    assert found["unequal hosts, lookups per connection: throughput of 'best' / 'round_robin', minimum"].value == 0.0


def test_hosts_alone_are_taken_at_the_nearest_number_of_clients() -> None:
    outcomes = [
        made("single", resolve="", clients=20, throughput=10.0, host="frodo"),
        made("single", resolve="", clients=20, throughput=12.0, host="frodo", repetition=2),
        made("single", resolve="", clients=60, throughput=13.0, host="frodo"),
        made("alone", resolve="", clients=60, throughput=30.0, host="bilbo"),
        made("alone", resolve="", clients=60, workload="cgi", throughput=3.0, host="bilbo"),
        made("alone", resolve="", clients=60, throughput=None, host="gandalf"),
        made("best", resolve="webstone", clients=50, throughput=40.0),
    ]
    by_host = alone(outcomes, "unequal", "html")
    assert by_host == {"frodo": {20: 11.0, 60: 13.0}, "bilbo": {60: 30.0}}
    assert sum_alone(by_host, ("bilbo", "frodo"), 30) == 41.0
    assert sum_alone(by_host, ("bilbo", "frodo"), 50) == 43.0
    assert sum_alone(by_host, HOSTS, 50) is None
    assert of_the_sum(outcomes, PointKey("unequal", "best", "html", "webstone", 50), ("bilbo", "frodo")) == 40 / 43


def test_the_busiest_agent_of_any_run() -> None:
    runs = [
        made(cpu={"bilbo-agent": 0.5, "frodo-agent": 0.7, "gandalf": 40.0}),
        made("round_robin", cpu={"bilbo-agent": 1.5, "frodo-agent": 0.1, "dns": 9.0}),
        made("best_score"),
    ]
    assert busiest_agent(runs) == 1.5
    assert agents_mean(runs) == about(0.7)
    demand = agents_demand(runs)
    assert (demand.value, demand.bound, demand.points, demand.verdict) == (1.5, 1.0, 2, "not met")
    assert agents_demand(runs[:1]).verdict == "met"


@pytest.mark.parametrize(
    ("throughput", "p95", "expected"),
    [
        (300.0, 0.04, "wins"),
        (300.0, 0.06, "between"),  # more than best, and slower
        (150.0, 0.09, "between"),
        (90.0, 0.04, "herds"),
        (150.0, 0.2, "herds"),
    ],
)
def test_where_the_literal_rule_wins_and_herds(throughput: float, p95: float, expected: str) -> None:
    found = OutcomeIndex([*pair(20, 250.0, 0.05), made("best_score", throughput=throughput, p95=p95)])
    assert verdict(found, KEY._replace(selection="best_score"), "best", "round_robin") == expected


def test_without_round_robin_nothing_is_said() -> None:
    found = OutcomeIndex([made("best"), made("best_score", throughput=900.0)])
    assert verdict(found, KEY._replace(selection="best_score"), "best", "round_robin") == ""
