"""Tests of the comparison of real servers: all answer the same queries, and each server's cost is measured."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from lbdns_tools.bench.dns.benchmark_farm import LbdnsProgram
from lbdns_tools.bench.dns.compared_servers import serving_peer
from lbdns_tools.bench.dns.peers import lbdns_servers, measure, reference, summary
from lbdns_tools.bench.measured_processes import BenchmarkError
from tests.needs import needs

PROGRAMS = ("dnsperf", "taskset", "nsd", "knotd", "gdnsd", "pdns_server")


@needs(programs=PROGRAMS)
def test_every_server_answers_and_has_a_cost(tmp_path: Path) -> None:
    options = argparse.Namespace(
        server_core=0, load_core=0, plane="auto", compare_planes=False, also=[], peers=["nsd", "knot", "gdnsd", "pdns"],
        coredns=None, peer_ttl=0, names="both", rounds=1, seconds=0.3, cookies=True,
    )  # fmt: skip
    figures = measure(options, tmp_path)
    assert set(figures["servers"]) == {"lbdns", "nsd", "knot", "gdnsd", "pdns"}
    for name, found in figures["servers"].items():
        assert found["queries_per_s"] > 0, name
        assert found["cpu_us_per_query"] > 0, name
        assert figures["answers"][name][0] == "best.hobbit. CNAME"
    assert figures["servers"]["lbdns"]["cpu_ratio"] == 1


def test_a_coredns_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(BenchmarkError, match="/nowhere/coredns is not installed"),
        serving_peer("coredns", tmp_path / "x", 0, coredns=Path("/nowhere/coredns")),
    ):
        pass


def test_every_checkout_runs_on_every_plane(tmp_path: Path) -> None:
    (tmp_path / "lbdns").mkdir()
    (tmp_path / "lbdns" / "__init__.py").touch()
    options = argparse.Namespace(also=[("old", tmp_path)], compare_planes=True, plane="auto")
    servers = lbdns_servers(options)
    assert list(servers) == ["lbdns python", "lbdns native", "old python", "old native"]
    assert servers["old native"] == ("native", LbdnsProgram(tmp_path))
    options.compare_planes = False
    assert [plane for plane, _ in lbdns_servers(options).values()] == ["auto", "auto"]


@needs(programs=("dnsperf", "taskset"))
def test_another_checkout_runs_beside_this_one(tmp_path: Path) -> None:
    checkout = Path(__file__).parents[4]
    options = argparse.Namespace(
        server_core=0, load_core=0, plane="python", compare_planes=False, also=[("same", checkout)], peers=[],
        coredns=None, peer_ttl=0, names="best", rounds=1, seconds=0.3, cookies=False,
    )  # fmt: skip
    results = measure(options, tmp_path)
    assert set(results["servers"]) == {"lbdns", "same"}
    assert results["servers"]["same"]["cpu_ratio"] > 0
    assert results["note"].count("python plane") == 2


def round_of(rate: float, cost: float, lost: int = 0) -> dict[str, float]:
    return {"queries_per_s": rate, "cpu_us_per_query": cost, "busy": 0.5, "answered": 100, "lost": lost}


def test_ratios_are_taken_within_a_round() -> None:
    # A machine that is half as fast in one round changes no ratio
    rounds = [{"lbdns": round_of(80 / slow, 6 * slow, 1), "nsd": round_of(100 / slow, 4 * slow)} for slow in (1, 2, 1)]
    found = summary(rounds)
    assert found["nsd"]["rate_ratio"] == 0.8
    assert found["nsd"]["cpu_ratio"] == 1.5
    assert found["lbdns"]["cpu_us_per_query"] == 6
    assert (found["lbdns"]["lost"], found["nsd"]["lost"]) == (3, 0)
    assert found["lbdns"]["busy_percent"] == 50


def test_another_checkout_is_compared_on_its_own_plane() -> None:
    names = ["lbdns python", "lbdns native", "old python", "old native", "nsd"]
    assert [reference(name, names) for name in names] == [
        "lbdns python", "lbdns python", "lbdns python", "lbdns native", "lbdns python",
    ]  # fmt: skip
    assert reference("old", ["lbdns", "old"]) == "lbdns"
