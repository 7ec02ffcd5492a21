"""Tests of measuring a load from each client host at the same time: one outcome for all, and one for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lbdns_tools.lab.measuring import site_measurement
from lbdns_tools.lab.measuring.case_measurement import MeasuredCase
from lbdns_tools.lab.measuring.site_measurement import ALL, SITE, measure
from lbdns_tools.load.load_plan import LoadRun, OpenLoop, ResolveRule
from lbdns_tools.load.load_process_pool import LoadPlace
from lbdns_tools.load.load_study import PlannedRun, opened
from lbdns_tools.load.process_measurements import RunResult, combine
from lbdns_tools.load.request_mix import one_url
from tests.tools.lab.measuring.test_case_measurement import FakeLab
from tests.tools.load.loopback_servers import GOOD, answering, web

CASE = MeasuredCase("best", "1k", "connection", "best.hobbit", "farm", {"part": "even load"})


def at_sites(marks: Path) -> FakeLab:
    lab = FakeLab(marks)
    for client, site in zip(lab.clients(), ("berlin", "paris"), strict=True):
        client.machine = replace(client.machine, site=site)
    return lab


def planned(port: int, rate: float) -> PlannedRun:
    mix = one_url(f"http://127.0.0.1:{port}/")
    return opened(LoadRun(ResolveRule("once")), "1k", mix, OpenLoop((rate,), 1.0))


def test_each_client_host_has_its_own_load(tmp_path: Path) -> None:
    with web(answering(GOOD)) as server:
        loads = {"client1": planned(server.port, 30.0), "client2": planned(server.port, 10.0)}
        whole, berlin, paris = measure(cast(Any, at_sites(tmp_path / "marks")), CASE, loads, repetition=2)
    assert [each.case.more[SITE] for each in (whole, berlin, paris)] == [ALL, "berlin", "paris"]
    assert [each.row.figures.ok for each in (whole, berlin, paris)] == [40, 30, 10]
    assert [each.row.point.rate_per_s for each in (whole, berlin, paris)] == [40.0, 30.0, 10.0]
    assert {each.row.repetition for each in (whole, berlin, paris)} == {2}
    assert paris.row.figures.shares == {"bilbo": 1.0}
    assert sorted((tmp_path / "marks").read_text().split()) == ["client1", "client2"]
    assert whole.answers
    assert not paris.answers


def test_half_a_run_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(runs: Sequence[tuple[LoadRun, LoadPlace]]) -> tuple[RunResult, list[RunResult]]:
        result = combine(runs[0][0], [], 0.0, stopped_at=0.1)
        return result, [result]

    monkeypatch.setattr(site_measurement, "run_together", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure(cast(Any, at_sites(tmp_path / "marks")), CASE, {"client1": planned(80, 1.0)})
