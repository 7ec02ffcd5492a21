"""Points of studies: what they ask for, and finding them again."""

from __future__ import annotations

import pytest

from lbdns.errors import ConfigError
from lbdns_tools.lab.farm import Farm
from lbdns_tools.lab.presets.points import (
    OVERHEAD_S,
    TAIL_S,
    TIMEOUT_S,
    UNEQUAL,
    Found,
    Key,
    Length,
    addresses_of,
    chosen,
    dns_name,
    mean,
    quotient,
    web_point,
)
from lbdns_tools.load.plan import Closed
from tests.tools.lab.presets.made_up import made

KEY = Key("unequal", "best", "html", "connection", 20)


def test_clients_ask_for_the_name_of_a_policy() -> None:
    assert [dns_name(policy) for policy in ("best", "best_score", "round_robin")] == [
        "best.hobbit", "best.score.hobbit", "round.robin.hobbit",
    ]  # fmt: skip


def test_a_point_of_webstone() -> None:
    planned = web_point("mixed", "best.hobbit", 30, "webstone", Length(5.0, 8.0), 7)
    (phase,) = planned.run.phases
    assert phase.load == Closed(30, 13.0)
    assert (planned.run.warm_up_s, planned.run.timeout_s, planned.run.seed) == (5.0, TIMEOUT_S, 7)
    assert (planned.point.clients, planned.point.resolve) == (30, "webstone")
    assert {target.host for target in phase.mix.targets} == {"best.hobbit"}
    assert len(phase.mix.targets) == 10


def test_how_long_a_point_takes() -> None:
    assert Length(2.0, 3.0).total("cgi") == 5.0 + OVERHEAD_S + TAIL_S["cgi"]
    assert Length(2.0, 3.0).total("1k") == 5.0 + OVERHEAD_S


def test_selections_that_are_said_or_usual() -> None:
    assert chosen((), ("a", "b"), ("a",)) == ("a",)
    assert chosen(("b",), ("a", "b"), ("a",)) == ("b",)
    with pytest.raises(ConfigError, match=r"--selections: 'bset' is not known. Perhaps you meant 'best'\?"):
        chosen(("bset",), ("best", "single"), ())


def test_addresses_are_those_of_web_hosts_alone() -> None:
    assert addresses_of(Farm(UNEQUAL, proxies=("nginx",))) == {
        "bilbo": "198.18.1.1", "frodo": "198.18.1.2", "gandalf": "198.18.1.3",
    }  # fmt: skip


def test_figures_are_means_over_repetitions_that_have_one() -> None:
    found = Found(
        [
            made(throughput=100.0, cpu={"dns": 1.0}, shares={"gandalf": 0.5, "frodo": 0.5}),
            made(throughput=None, cpu={"dns": 3.0}),
            made(throughput=200.0, shares={"gandalf": 0.7, "frodo": 0.3}),
            made("round_robin", throughput=50.0),
            made("best", rate=5.0, clients=None, throughput=7.0),
        ]
    )
    rotation = KEY._replace(selection="round_robin")
    assert found.keys == [KEY, rotation]
    assert found.figure(KEY, "requests_per_s") == 150.0
    assert found.cpu_percent(KEY, "dns") == 2.0
    assert found.share(KEY, "gandalf") == pytest.approx(0.6)
    assert found.ratio(KEY, rotation, "requests_per_s") == 3.0


def test_ratios_are_of_the_same_repetition() -> None:
    measured = ((1, 100.0, 90.0), (2, None, 80.0), (3, 0.0, 70.0), (4, 50.0, 75.0))
    found = Found([
        made(selection, throughput=throughput, repetition=number)
        for number, rotation, best in reversed(measured)
        for selection, throughput in (("best", best), ("round_robin", rotation))
    ] + [made("best", repetition=5)])  # fmt: skip
    rotation = KEY._replace(selection="round_robin")
    assert found.ratios(KEY, rotation, "requests_per_s") == (1.5, 0.9), (
        "2 and 3 have no result, 5 nobody to compare with"
    )
    assert found.ratios(KEY, KEY._replace(clients=30), "requests_per_s") == ()


def test_what_was_not_measured_is_no_result() -> None:
    found = Found([made(throughput=0.0)])
    missing = KEY._replace(clients=30)
    assert found.at(missing) == []
    assert (found.figure(missing, "p95_s"), found.share(missing, "frodo"), found.cpu_percent(KEY, "dns")) == (None,) * 3
    assert found.keys == [KEY]  # looking for a point doesn't make it
    assert found.ratio(missing, KEY, "requests_per_s") is None
    assert found.ratio(KEY, KEY, "requests_per_s") is None  # nothing to divide by
    assert (mean([None, None]), quotient(0.0, 2.0), quotient(None, 2.0), quotient(1.0, 0.0)) == (None, 0.0, None, None)
