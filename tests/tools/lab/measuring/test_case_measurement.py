"""Tests of measuring a case: load from client hosts, samples after the warm-up, and shares by machine name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lbdns_tools.lab.farm.lab_farm import LabMachine
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.measuring.case_measurement import MeasuredCase, answers, by_name, counted, measure
from lbdns_tools.load.load_plan import ClosedLoop, LoadRun, OpenLoop, ResolveRule
from lbdns_tools.load.load_process_pool import InterruptedRunError, RunMeasurement
from lbdns_tools.load.load_study import PlannedRun, closed
from lbdns_tools.load.request_mix import one_url
from lbdns_tools.load.result_rows import ResultRow
from tests.tools.lab.measuring.test_cgroup_sampler import Made
from tests.tools.load.local_runs import run_of
from tests.tools.load.loopback_servers import GOOD, answering, web
from tests.tools.load.made_up_rows import row

SOURCES = (("127.0.0.4", "127.0.0.5"), ("127.0.0.6",))


class Client:
    """A client host. Every command started on the host appends the host's name to a file."""

    def __init__(self, name: str, sources: tuple[str, ...], marks: Path) -> None:
        self.machine = LabMachine(name, "client", sources, "::1")
        self.marks = marks

    def command(self, *argv: str) -> tuple[str, ...]:
        return ("sh", "-c", f'echo {self.machine.name} >> {self.marks}; exec "$@"', "sh", *argv)


class FakeLab:
    """Two client hosts, and this machine as the web host. Each status reading reports two more answers."""

    def __init__(self, marks: Path) -> None:
        self._clients = [Client(f"client{n}", sources, marks) for n, sources in enumerate(SOURCES, 1)]
        self.machines = {"bilbo": LabMachine("bilbo", "web", ("127.0.0.1",), "::1")}
        self.groups = {"bilbo": Made(0.1)}
        self.places: dict[str, PlacedMachine] = {}
        self.asked = 0

    def clients(self) -> Sequence[Client]:
        return self._clients

    def status(self) -> Mapping[str, Any]:
        self.asked += 1
        return document(bilbo=10 + 2 * self.asked, frodo=7)


def document(**given: int) -> dict[str, Any]:
    return {"pools": [{"members": [{"name": name, "answers": count} for name, count in given.items()]}]}


def planned(port: int, seconds: float = 1.0, warm_up_s: float = 0.0) -> PlannedRun:
    settings = LoadRun(ResolveRule("once"), warm_up_s=warm_up_s)
    return closed(settings, "html", one_url(f"http://127.0.0.1:{port}/"), ClosedLoop(2, seconds=seconds))


def test_a_case_is_measured_from_the_client_hosts(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path / "marks")
    case = MeasuredCase("best", "html", "once", "127.0.0.1", "unequal")
    with web(answering(GOOD, pause_s=0.01)) as server:
        outcome = measure(cast(Any, lab), case, planned(server.port, 2.2, 0.5), 3)
    assert sorted((tmp_path / "marks").read_text().split()) == ["client1", "client2"]
    assert server.peers == {address for addresses in SOURCES for address in addresses}
    assert (outcome.case, outcome.row.repetition) == (case, 3)
    assert outcome.row.figures.shares == {"bilbo": 1.0}
    assert outcome.answers == {"bilbo": 2, "frodo": 0}
    assert outcome.row.begun is not None
    begin, end = outcome.row.begun + 0.5, outcome.row.begun + 0.5 + 2.2
    assert outcome.samples  # a second and more lies wholly in 2.2
    assert all(begin + 0.9 <= sample.time <= end + 0.1 for sample in outcome.samples)
    assert outcome.cpu_percent("bilbo") == pytest.approx(10, rel=0.05)


def test_nobody_is_asked_where_no_name_is(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path / "marks")
    with web(answering(GOOD)) as server:
        outcome = measure(cast(Any, lab), MeasuredCase("single", "html", "", "127.0.0.1"), planned(server.port, 0.2))
    assert (lab.asked, outcome.answers) == (0, {})


def test_half_a_run_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> ResultRow:
        raise InterruptedRunError(row())

    monkeypatch.setattr(RunMeasurement, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure(cast(Any, FakeLab(tmp_path / "marks")), MeasuredCase("single", "html", "", "127.0.0.1"), planned(80))


@pytest.mark.parametrize(
    ("run", "measured_s", "length_s"),
    [
        (
            run_of(ClosedLoop(2, seconds=20), "http://127.0.0.1/", warm_up_s=5.0),
            31.0,
            15.0,
        ),  # answered late, sent in time
        (run_of(ClosedLoop(2, requests=100), "http://127.0.0.1/", warm_up_s=5.0), 31.0, 31.0),
        (run_of(ClosedLoop(2, seconds=20, requests=100), "http://127.0.0.1/", warm_up_s=5.0), 3.0, 3.0),
        (run_of(OpenLoop((10.0, 20.0), 4.0), "http://127.0.0.1/"), 8.5, 8.0),
    ],
)
def test_the_seconds_that_count(run: LoadRun, measured_s: float, length_s: float) -> None:
    of = row()
    of = replace(of, begun=1e9, figures=replace(of.figures, seconds=measured_s))
    begin, end = counted(run, of)
    assert begin == 1e9 + run.warm_up_s
    assert math.isclose(end - begin, length_s)


def test_answers_are_of_all_pools() -> None:
    status = {"pools": [*document(bilbo=3, frodo=1)["pools"], *document(bilbo=4)["pools"]]}
    assert answers(status) == {"bilbo": 7, "frodo": 1}


def test_addresses_get_the_names_of_machines() -> None:
    machines = {"haproxy": LabMachine("haproxy", "proxy", ("198.18.0.1",), "fd00::1")}
    assert by_name(row(), machines).figures.shares == {"haproxy": 0.5, "198.18.0.2": 0.5}
