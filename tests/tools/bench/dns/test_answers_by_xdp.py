"""Tests of the benchmark of answers by XDP: with fakes, and with a short run of real servers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lbdns_tools.bench.dns import answers_by_xdp
from lbdns_tools.bench.dns.answers_by_xdp import add_options, figures, measure, tables, target_met
from lbdns_tools.bench.dns.kxdpgun import KxdpgunResult, KxdpgunRun
from lbdns_tools.bench.measured_processes import BenchmarkError
from tests.needs import needs


def test_figures_are_per_answer() -> None:
    assert figures("nsd", KxdpgunResult(200, 100, 100), 2.0, 0.001, 0.0005) == pytest.approx({
        "answers_per_s": 50, "answered_percent": 50, "process_us": 10, "kernel_us": 5, "cpu_us": 15,
    })  # fmt: skip


@pytest.mark.parametrize("found", [KxdpgunResult(10, 0, 0), KxdpgunResult(10, 9, 8)])
def test_errors_are_refused(found: KxdpgunResult) -> None:
    with pytest.raises(BenchmarkError, match="nsd must answer with NOERROR"):
        figures("nsd", found, 1.0, 0.1, 0.1)


@pytest.mark.parametrize(("xdp", "met"), [(3.0, True), (5.0, False), (6.0, False)])
def test_the_target_holds_at_each_rate(xdp: float, met: bool) -> None:
    servers = {f"{name}, {rate}/s": {"cpu_us": 5.0} for name in ("lbdns", "lbdns-xdp") for rate in (1, 2)}
    servers["lbdns-xdp, 1/s"]["cpu_us"] = 1.0
    servers["lbdns-xdp, 2/s"]["cpu_us"] = xdp
    assert target_met(servers, [1, 2]) == met


class FakeServer:
    """A server, its process and the end of a veth pair, whose clocks advance with each reading."""

    name, port, namespace = "fake", 53, "ns"

    def __init__(self, cost: float) -> None:
        self.process, self.cost, self.used = self, cost, 0.0

    def cpu_seconds(self) -> float:
        self.used += self.cost
        return self.used

    kernel_seconds = cpu_seconds


def options_of(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(arguments)


def test_servers_are_measured_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    runs: list[KxdpgunRun] = []

    def serving(name: str, cost: float) -> Any:
        @contextmanager
        def serve(folder: Path, end: FakeServer, core: int) -> Iterator[FakeServer]:
            assert folder.is_dir()
            started.append(name)
            yield FakeServer(cost)

        return serve

    @contextmanager
    def pair(server_core: int, load_core: int) -> Iterator[tuple[FakeServer, FakeServer]]:
        yield FakeServer(0.001), FakeServer(0.0)

    def run(found: KxdpgunRun) -> KxdpgunResult:
        runs.append(found)
        return KxdpgunResult(1000, 1000, 1000)

    fakes = {"lbdns": serving("lbdns", 0.004), "lbdns-xdp": serving("lbdns-xdp", 0.0)}
    for name, fake in {
        "SERVERS": fakes, "veth_pair": pair, "run_kxdpgun": run, "need": lambda *_: "", "inside": lambda *_: b"",
    }.items():  # fmt: skip
        monkeypatch.setattr(answers_by_xdp, name, fake)
    results = measure(options_of("--rounds", "2", "--rates", "100", "--servers", "lbdns", "lbdns-xdp"), tmp_path)
    assert started == ["lbdns", "lbdns-xdp", "lbdns-xdp", "lbdns"]
    assert [found.rate for found in runs] == [5000, 100] * 4
    assert results["servers"]["lbdns, 100/s"]["cpu_us"] == 5.0
    assert results["servers"]["lbdns-xdp, 100/s"]["cpu_us"] == 1.0
    assert results["met"] is True
    console = Console(width=120, record=True)
    for table in tables(results):
        console.print(table)
    assert "lbdns-xdp, 100/s" in console.export_text()


@needs(programs=("ip", "ethtool", "kxdpgun", "taskset", "nsd", "knotd", "gdnsd"), root=True, namespaces=True, xdp=True)
def test_every_server_answers(tmp_path: Path) -> None:
    """In the second round, Knot by XDP precedes lbdns, and leaves its XDP program on the device."""
    options = options_of("--rounds", "2", "--seconds", "0.5", "--rates", "2000", "--server-core", "0")
    results = measure(options, tmp_path)
    assert len(results["servers"]) == len(answers_by_xdp.SERVERS)
    for name, found in results["servers"].items():
        assert found["answers_per_s"] > 0, name
        assert found["kernel_us"] > 0, name
