"""Tests of the ``other-loads`` study: its disturbances, their cleanup, and its report."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import UNEQUAL, FarmLoad
from lbdns_tools.lab.presets import other_loads_study
from lbdns_tools.lab.presets.other_loads_study import PRESET, QUICK_SELECTIONS, SELECTIONS, USUAL
from lbdns_tools.lab.programs import php_content
from lbdns_tools.lab.report.other_loads_report import death_sentence
from lbdns_tools.lab.report.outcome_index import part
from lbdns_tools.lab.study_plan import StudySettings
from lbdns_tools.load.load_plan import OpenLoop
from tests.tools.lab.presets.fake_lab import FakeLab
from tests.tools.lab.presets.made_up_courses import course
from tests.tools.lab.presets.study_steps import Server, do, draw, words_of

QUICK = StudySettings(quick=True)
CARRIES = {"round_robin": 300.0, "best": 900.0, "best_score": 900.0, "alone": 900.0}
HOSTS = {"bilbo": 5.0, "frodo": 5.0, "gandalf": 5.0}
LIMIT_S = 10.0


class _Running:
    def stop(self) -> None:
        pass


@dataclass
class _Lab(FakeLab):
    """A fake lab that tracks which hosts are running. Its answers name only running hosts."""

    folder: Path = Path()
    gone: set[str] = field(default_factory=set)
    answered: dict[str, int] = field(default_factory=dict)
    back: threading.Event = field(default_factory=threading.Event)

    def note(self, what: str, name: str) -> None:
        self.heard.append(f"{what} {name}")

    def run_in(self, machine: str, name: str, *command: str) -> _Running:
        self.note(machine, name)
        return _Running()

    def stop_web(self, name: str, kill: bool) -> None:
        assert kill
        self.gone.add(name)
        self.note("stop web", name)

    def start_web(self, name: str) -> None:
        self.gone.remove(name)
        self.note("start web", name)
        self.back.set()

    def stop_agent(self, name: str, kill: bool) -> None:
        assert kill
        self.note("stop agent", name)

    def start_agent(self, name: str) -> None:
        self.note("start agent", name)

    @contextmanager
    def resolve_by(self, *names: str) -> Iterator[None]:
        self.note("resolve by", *names)
        yield
        self.note("resolve by", "dns")

    def status(self) -> dict[str, Any]:
        for host in self.farm.hosts:
            self.answered[host.name] = self.answered.get(host.name, 0) + (host.name not in self.gone)
        members = [{"name": name, "answers": count} for name, count in self.answered.items()]
        return {"pools": [{"members": members}]}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Lab:
    # A death takes a twentieth of a second here
    for name in ("DEATH_S", "QUICK_DEATH_S"):
        monkeypatch.setattr(other_loads_study, name, 0.15)
    for name in ("WARM_UP_S", "QUICK_WARM_UP_S"):
        monkeypatch.setattr(f"lbdns_tools.lab.loads.farm_load.{name}", 0.01)
    monkeypatch.setattr("lbdns_tools.lab.loads.scheduled_events.LOOK_S", 0.01)
    return _Lab(LabFarm(UNEQUAL), folder=tmp_path)


@pytest.fixture
def server(lab: _Lab) -> Server:
    server = Server(CARRIES)

    def meanwhile() -> None:
        """If the measured case includes the death of a host, wait until the host is running again."""
        if str(server.calls[-1][0].more.get("part", "")).removesuffix(" checked").endswith("dies"):
            assert lab.back.wait(LIMIT_S)
            lab.back.clear()

    server.meanwhile = meanwhile
    return server


def test_each_part_by_each_selection(lab: _Lab, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = do(PRESET.plan(StudySettings(), None), lab, server, monkeypatch)
    deaths = ("web dies", "host dies", "web dies checked", "host dies checked")
    for name in (
        "quiet",
        "burners",
        "writers",
        "1 shell",
        "4 shells",
        "8 shells",
        *deaths,
        "crowd",
        "resolvers",
        "keeping",
    ):
        assert [outcome.case.selection for outcome in part(outcomes, name)] == list(SELECTIONS), name
    usual = [planned.run.phases[0].load for case, planned in server.calls if case.more.get("part") == "quiet"]
    assert [load.rates for load in usual if isinstance(load, OpenLoop)] == [(USUAL * 300.0,)] * 3
    crowds = [planned.run.phases[0].load for case, planned in server.calls if case.more.get("part") == "crowd"]
    for load in crowds:
        assert isinstance(load, OpenLoop)
        assert max(load.rates) == pytest.approx(10 * min(load.rates))
        assert 300 < max(load.rates) < 900
    assert lab.heard.count("resolve by resolvers") == lab.heard.count("resolve by dns") == 6
    assert list((lab.folder / "writers").iterdir()) == []
    assert [lab.heard.count(f"gandalf shell{number}-gandalf") for number in (1, 2, 4, 5, 8, 9)] == [9, 6, 6, 3, 3, 0]


def test_a_page_with_and_without_caches(lab: _Lab, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = part(do(PRESET.plan(StudySettings(), None), lab, server, monkeypatch), "caches")
    assert [(outcome.case.workload, outcome.case.selection) for outcome in outcomes] == [
        (page, selection) for page in php_content.PAGES for selection in ("alone", *SELECTIONS)
    ]
    calls = [call for call in server.calls if call[0].more.get("part") == "caches"]
    for case, planned in calls:
        assert planned.run.phases[0].mix.targets[0].path == php_content.PAGES[case.workload]
        assert planned.point.clients == (1 if case.selection == "alone" else 40)
    section = next(s for s in PRESET.plan(StudySettings(), None).sections(outcomes) if "caches" in s.heading)
    assert [row[:2] for row in section.tables[0].rows] == [
        [page, selection] for page in php_content.PAGES for selection in ("alone", *SELECTIONS)
    ]
    assert "470 ms without caches" in words_of([section])


def test_deaths_are_measured_on_a_farm_without_checks_and_on_one_with_them(
    lab: _Lab, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = PRESET.plan(StudySettings(), None)
    bare, checked = plan.farms["without checks"], plan.farms["with checks"]
    assert (bare.check, bare.alarms, checked.check, checked.alarms) == ("off", False, "tcp:80", True)
    outcomes = do(plan, lab, server, monkeypatch)
    for name in ("web dies", "host dies"):
        assert {outcome.case.farm for outcome in part(outcomes, name)} == {"without checks"}
        assert {outcome.case.farm for outcome in part(outcomes, f"{name} checked")} == {"with checks"}


@pytest.mark.parametrize(("lost", "verdict"), [(5, "Met"), (6, "Not met")])
def test_what_is_said_of_best_with_checks_beside_round_robin_without(lost: int, verdict: str) -> None:
    best = course([(95, 0.1, 0), (100 - lost, 0.1, lost)], cpu=HOSTS, part="host dies checked", host="bilbo")
    robin = course([(95, 0.1, 0), (95, 0.1, 5)], "round_robin", cpu=HOSTS, part="host dies", host="bilbo")
    words = words_of(PRESET.plan(QUICK, None).sections([best, robin]))
    assert f"{verdict}: 'best' with checks lost " in words


def test_who_dies_comes_back(lab: _Lab, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = do(PRESET.plan(QUICK, None), lab, server, monkeypatch)
    heard = [line for line in lab.heard if line.split()[0] in ("stop", "start")]
    web = ["stop web gandalf", "start web gandalf"]
    host = ["stop web gandalf", "stop agent gandalf", "start agent gandalf", "start web gandalf"]
    assert heard == 2 * web + 2 * host
    assert not lab.gone
    for outcome in (*part(outcomes, "web dies"), *part(outcomes, "host dies")):
        assert outcome.case.more["host"] == "gandalf"
        assert float(outcome.case.more["died_s"]) < float(outcome.case.more["back_s"])
        assert outcome.case.more["handed_out_for_s"] == 0.0  # the made-up one knows at once


def test_who_died_is_brought_back_when_the_measurement_fails(lab: _Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(CARRIES)

    def fail() -> None:
        if server.calls[-1][0].more.get("part") == "web dies":
            for _ in range(6000):
                if lab.gone:
                    break
                threading.Event().wait(0.01)
            raise LbdnsError("a load process ended")

    server.meanwhile = fail
    monkeypatch.setattr(other_loads_study, "QUICK_DEATH_S", 60.0)  # nobody would come back in time
    monkeypatch.setattr(FarmLoad, "warm_up_s", -20.0)  # and dies at once
    with pytest.raises(LbdnsError, match="load process"):
        do(PRESET.plan(QUICK, None), lab, server, monkeypatch)
    assert not lab.gone
    assert lab.heard[-1] == "start web gandalf"


def test_farms_with_resolvers() -> None:
    farms = PRESET.plan(StudySettings(), None).farms
    assert [farm.resolver_min_ttl for farm in farms.values()] == [0, 0, 0, 0, 0, 30]
    assert [farm.resolvers for farm in farms.values()] == [0, 2, 0, 0, 0, 2]
    assert [name for name, farm in farms.items() if farm.php] == ["php"]
    assert farms["resolvers"].clients == 2  # each of them asks one


@pytest.mark.parametrize("settings", [StudySettings(), QUICK])
def test_resolvers_alone_are_loaded_by_what_was_found_out_without_them(settings: StudySettings) -> None:
    names = [step.name for step in PRESET.plan(settings, None).only("best, resolvers").steps]
    assert names[1] == "the sustained rate with round_robin"
    assert names[-1] == "best, resolvers that keep"


def test_what_is_left_out_if_it_has_to_be_quick() -> None:
    full, quick = ({step.name for step in PRESET.plan(said, None).steps} for said in (StudySettings(), QUICK))
    assert {f"{selection}, burners" for selection in SELECTIONS} <= full
    assert {name for name in quick if name.endswith(", burners")} == {f"{name}, burners" for name in QUICK_SELECTIONS}
    assert "best, resolvers" in full - quick


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "no result, because the measurement ended before the host died"),
        (
            {"died_s": 5.0, "handed_out_for_s": 1.25},
            "naming the host 1.2 s after its death; the host did not return before the end of the measurement",
        ),
        (
            {"died_s": 5.0, "handed_out_for_s": 0.0, "back_s": 9.0},
            "no answer named the host after its death; no answer named the host again",
        ),
        (
            {"died_s": 5.0, "back_s": 9.0, "handed_out_after_s": 2.0},
            "naming the host; the host appeared in answers again 2 s after its return",
        ),
    ],
)
def test_what_is_said_of_a_death(more: dict[str, Any], said: str) -> None:
    assert said in death_sentence(course([(10, 0.1, 3)], part="web dies", host="bilbo", **more))


def test_the_report(lab: _Lab, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    study = PRESET.plan(StudySettings(selections=QUICK_SELECTIONS), None)
    sections = study.sections(do(study, lab, server, monkeypatch))
    words = words_of(sections)
    assert words.count("Met: 'best' was at most 5 % worse") == 13
    assert words.count("Each shell on gandalf repeatedly compiles") == 3
    assert "3 busy loops run on gandalf" in words
    assert "4 MB" in words
    assert words.count("Met: 'best' with checks lost") == 2
    assert [section.heading for section in sections if "shell" in section.heading] == [
        "1 shell that compiles and searches", "4 shells that compile and search", "8 shells that compile and search",
    ]  # fmt: skip
    assert len(draw(sections, tmp_path)) == 13


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    sections = PRESET.plan(QUICK, None).sections([course([(10, 0.1, 0)], cpu=HOSTS, part="quiet")])
    assert words_of(sections).count("Not measured: no result.") == 13
    assert draw(sections, tmp_path) == ["other-quiet"]


def test_how_long_a_crowd_is_felt(tmp_path: Path) -> None:
    calm, crowd = (10, 0.001, 0), (100, 3.0, 0)
    felt = course([calm] * 3 + [crowd] * 2 + [calm] * 6, cpu=HOSTS, part="crowd", begin_s=3.0, length_s=2.0)
    unfelt = course([calm] * 8, "round_robin", cpu=HOSTS, part="crowd", begin_s=3.0, length_s=2.0)
    words = words_of(PRESET.plan(QUICK, None).sections([felt, unfelt]))
    assert "best: response times returned to normal 3 s after the flash crowd." in words
    assert "round_robin: response times returned to normal as soon as the flash crowd ended." in words


def test_in_memory_no_disk_is_waited_for() -> None:
    for kind, said in (("tmpfs", "did not use a disk"), ("ext4", "file system on the disk was ext4"), ("", "unknown")):
        of = course([(10, 0.1, 0)], part="writers", host="bilbo", filesystem=kind)
        assert said in words_of(PRESET.plan(QUICK, None).sections([of]))
