"""Real servers side by side, shortly: each is asked the same, answers it, and has a cost."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from lbdns_tools.bench.dns.peers import measure
from lbdns_tools.bench.dns.processes import BenchError
from lbdns_tools.bench.dns.servers import serving_peer
from tests.needs import needs

PROGRAMS = ("dnsperf", "taskset", "nsd", "knotd", "gdnsd", "pdns_server")


@needs(programs=PROGRAMS)
def test_every_server_answers_and_has_a_cost(tmp_path: Path) -> None:
    options = argparse.Namespace(
        server_core=0, load_core=0, plane="auto", compare_planes=False, peers=["nsd", "knot", "gdnsd", "pdns"],
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
        pytest.raises(BenchError, match="there is no /nowhere/coredns"),
        serving_peer("coredns", tmp_path / "x", 0, coredns=Path("/nowhere/coredns")),
    ):
        pass
