"""Checks the agreement benchmark's figure, which packets each case loses, and what its result is judged by."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from lbdns_tools.bench import agreement
from lbdns_tools.bench.agreement import BY_NAME, CASES, add_options, difference, measure
from lbdns_tools.bench.agreement_farm import BUS, COLLECTORS, MEMBERS, OWN, SERVERS, SHARED


def test_the_figure_is_the_largest_difference_between_two_servers() -> None:
    rows = [(0.1, 0.2, 0.3, 0.4), (0.12, 0.18, 0.3, 0.4), (0.1, 0.2, 0.35, 0.35)]
    shares = [{"best": dict(zip(MEMBERS, row, strict=True))} for row in rows]
    assert difference(shares, "best") == pytest.approx(0.05)


def test_receivers_lose_different_shares_of_the_reports() -> None:
    assert BY_NAME["loss"].losses(SERVERS) == [(name, "ns3", 0.3) for name in MEMBERS] + [
        (name, "ns2", 0.1) for name in MEMBERS
    ]
    assert {link[1:] for link in BY_NAME["loss"].losses(COLLECTORS)} == {("collector2", 0.3), ("collector1", 0.1)}


def test_cuts() -> None:
    assert BY_NAME["half-cut"].losses(COLLECTORS) == [("m0", "collector2", 1.0)]
    assert BY_NAME["bus-cut"].losses(SERVERS) == [("ns3", BUS, 1.0), (BUS, "ns3", 1.0)]
    assert BY_NAME["bus-cut-to"].losses(SERVERS) == [("ns3", BUS, 1.0)]
    assert BY_NAME["bus-cut-from"].losses(SERVERS) == [(BUS, "ns3", 1.0)]


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(words)


def result_of(monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str, **differences: float) -> dict[str, Any]:
    """Return what ``measure`` returns if the cases have these differences (default: 0)."""

    def measured(folder: Path, case: agreement.Case, collectors: str, options: argparse.Namespace) -> dict[str, Any]:
        return {"shares": [], "difference": {"best": differences.get(case.name.replace("-", "_"), 0.0)}}

    monkeypatch.setattr(agreement, "measure_case", measured)
    return measure(options(*words), folder)


def test_without_namespaces_no_packets_are_lost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert list(result_of(monkeypatch, tmp_path)["cases"]) == ["same_reports", "clock"]


def test_with_namespaces_all_cases_run_with_both_kinds_of_collectors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = result_of(monkeypatch, tmp_path, "--namespaces", "--collectors", OWN, SHARED)
    assert list(found["cases"]) == list(found["cases_shared"]) == [case.name for case in CASES]


@pytest.mark.parametrize(
    ("collectors", "case", "met"),
    [(OWN, "loss", True), (SHARED, "loss", False), (OWN, "clock", False), (SHARED, "bus_cut", True)],
)
def test_only_servers_that_receive_the_same_reports_are_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, collectors: str, case: str, met: bool
) -> None:
    found = result_of(monkeypatch, tmp_path, "--namespaces", "--collectors", collectors, **{case: 0.5})
    assert found["met"] is met
