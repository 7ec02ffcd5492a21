"""Tests of running a study step by step, with fake labs that record their calls."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.measuring.outcome_journal import OutcomeJournal, open_journal
from lbdns_tools.lab.report.report_page import ReportSection, SectionTable
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.lab.study_progress import StudyProgress
from lbdns_tools.lab.study_runner import StudyResult, run, summary, take_steps
from tests.tools.lab.presets.fake_lab import made

FARM = LabFarm((WebHost("bilbo", 0.11),))
Doing = Callable[[Any], Iterable[MeasuredOutcome]]


class WatcherLog(StudyProgress):
    """Records the calls of its methods."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def building(self, farm: str) -> None:
        self.heard.append(f"building {farm}")

    def begins(self, step: StudyStep) -> None:
        self.heard.append(step.name)

    def measured(self, outcome: MeasuredOutcome) -> None:
        self.heard.append(f"measured {outcome.case.selection}")

    def ends(self, step: StudyStep, error: LbdnsError | None) -> None:
        self.heard.append(f"failed: {error}" if error else "done")


class Labs:
    """Counts the labs built and those still open. ``troubles`` lists the exceptions that building the labs raises."""

    def __init__(self, *troubles: Exception | None) -> None:
        self.built = self.open = 0
        self._troubles = list(troubles)

    @contextmanager
    def __call__(self, farm: LabFarm) -> Iterator[Any]:
        trouble = self._troubles.pop(0) if self._troubles else None
        if trouble:
            raise trouble
        self.built += 1
        self.open += 1
        try:
            yield self
        finally:
            self.open -= 1


def measures(*selections: str) -> Doing:
    return lambda lab: [made(selection) for selection in selections]


def fails_after(*selections: str, error: BaseException) -> Doing:
    def do(lab: Any) -> Iterator[MeasuredOutcome]:
        yield from map(made, selections)
        raise error

    return do


def study(*steps: tuple[str, Doing], farms: Sequence[str] = ("one",)) -> StudyPlan:
    """Return a plan that consists of ``steps``; each is given as its farm and its function."""
    made_steps = tuple(StudyStep(f"step {n}", farm, 2.0, do) for n, (farm, do) in enumerate(steps, 1))
    return StudyPlan(dict.fromkeys(farms, FARM), made_steps, _sections)


def _sections(outcomes: Sequence[MeasuredOutcome]) -> list[ReportSection]:
    return [ReportSection("All", (), (SectionTable("all", ("selection",), [(o.case.selection,) for o in outcomes]),))]


def journal_in(folder: Path, of: StudyPlan) -> OutcomeJournal:
    return open_journal(folder, "made_up", StudySettings(), of.farms, resume=True)


def run_in(folder: Path, of: StudyPlan) -> tuple[StudyResult, list[str]]:
    """Run or resume a study in a directory. Return the result and what the progress display received."""
    preset, watcher = StudyPreset("made_up", "", "", lambda settings, farm: of), WatcherLog()
    with journal_in(folder, of) as journal:
        return run(preset, of, StudySettings(), folder, Labs(), watcher, journal), watcher.heard


def taken(of: StudyPlan, labs: Labs) -> tuple[StudyResult, list[str]]:
    watcher = WatcherLog()
    done = take_steps(of, labs, lambda outcome: None, watcher)
    assert labs.open == 0
    return done, watcher.heard


def test_a_lab_is_built_once_for_the_steps_of_a_farm() -> None:
    labs = Labs()
    done, heard = taken(
        study(("one", measures("best")), ("one", measures()), ("two", measures("a", "b")), farms=("one", "two")), labs
    )
    assert [outcome.case.selection for outcome in done.outcomes] == ["best", "a", "b"]
    assert heard == [
        "building one", "step 1", "measured best", "done", "step 2", "done",
        "building two", "step 3", "measured a", "measured b", "done",
    ]  # fmt: skip
    assert (done.failures, done.error, labs.built) == ([], None, 2)


def test_after_a_step_that_failed_the_others_go_on_in_a_new_lab() -> None:
    labs = Labs()
    steps = (("one", fails_after("a", error=LbdnsError("it rained"))), ("one", measures("b")), ("one", measures("c")))
    done, heard = taken(study(*steps), labs)
    assert [outcome.case.selection for outcome in done.outcomes] == ["a", "b", "c"]
    assert done.failures == ["step 1: it rained"]
    assert heard[:5] == ["building one", "step 1", "measured a", "failed: it rained", "building one"]
    assert labs.built == 2


def test_a_farm_on_which_everything_fails_is_given_up() -> None:
    bad = ("one", fails_after(error=LbdnsError("no")))
    done, _ = taken(study(*[bad] * 5, ("two", measures("best")), farms=("one", "two")), Labs())
    assert done.failures == [
        "step 1: no", "step 2: no", "step 3: no",
        "one: the remaining 2 steps were skipped after 3 consecutive failures",
    ]  # fmt: skip
    assert len(done.outcomes) == 1


def test_failures_that_do_not_follow_one_another() -> None:
    bad, good = ("one", fails_after(error=LbdnsError("no"))), ("one", measures("best"))
    done, _ = taken(study(bad, bad, good, bad, bad, good), Labs())
    assert (len(done.failures), len(done.outcomes)) == (4, 2)


def test_a_lab_that_can_not_be_built() -> None:
    labs = Labs(LbdnsError("no apache2"))
    done, _ = taken(study(("one", measures("a")), ("one", measures("b"))), labs)
    assert done.failures == ["one: the lab failed before step 1: no apache2"]
    assert [outcome.case.selection for outcome in done.outcomes] == ["b"]


def test_a_lab_that_can_not_be_removed() -> None:
    @contextmanager
    def stays(farm: LabFarm) -> Iterator[Any]:
        yield None
        raise LbdnsError("it is stuck")

    done = take_steps(study(("one", measures("a"))), stays, lambda outcome: None, WatcherLog())
    assert done.failures == ["one: the lab failed during cleanup: it is stuck"]
    assert len(done.outcomes) == 1


def test_ctrl_c_ends_it_and_nothing_is_lost() -> None:
    labs = Labs()
    done, _ = taken(study(("one", fails_after("a", error=KeyboardInterrupt())), ("one", measures("b"))), labs)
    assert done.interrupted
    assert [outcome.case.selection for outcome in done.outcomes] == ["a"]
    assert done.failures == []


def test_an_error_of_ours_ends_it_and_is_told() -> None:
    done, _ = taken(study(("one", fails_after("a", error=ValueError("ours"))), ("one", measures("b"))), Labs())
    assert isinstance(done.error, ValueError)
    assert not done.interrupted
    assert done.failures == ["the study ended early with ValueError: ours"]


@pytest.mark.parametrize("error", [None, KeyboardInterrupt(), LbdnsError("it rained")])
def test_results_and_report_are_written_whatever_happens(tmp_path: Path, error: BaseException | None) -> None:
    do = measures("best", "haproxy") if error is None else fails_after("best", "haproxy", error=error)
    of = study(("one", do))
    preset = StudyPreset("made_up", "A made-up study", "", lambda settings, farm: of)
    with journal_in(tmp_path, of) as journal:
        done = run(preset, of, StudySettings(seed=7), tmp_path, Labs(), WatcherLog(), journal)
    with (tmp_path / "results.csv").open(newline="") as file:
        assert [line["selection"] for line in csv.DictReader(file)] == ["best", "haproxy"]
    text = (tmp_path / "index.html").read_text()
    assert "A made-up study" in text
    assert "haproxy" in text
    document = json.loads((tmp_path / "manifest.json").read_text())
    assert (document["settings"]["seed"], document["farms"]["one"]["hosts"][0]["name"]) == (7, "bilbo")
    assert (document["interrupted"], document["failed"]) == (isinstance(error, KeyboardInterrupt), done.failures)


def test_results_are_there_before_a_study_ends(tmp_path: Path) -> None:
    lines: list[int] = []

    def look(lab: Any) -> Iterator[MeasuredOutcome]:
        yield made("best")
        lines.append(len((tmp_path / "results.csv").read_text().splitlines()))

    of = study(("one", look))
    run_in(tmp_path, of)
    assert lines == [2]


def test_what_will_be_done_is_told() -> None:
    assert list(summary(study(*[("one", measures())] * 2))) == ["farm one: bilbo 0.11 (cores)", "2 steps, about 4 s"]
    assert list(summary(study(("one", measures())), 3))[-1] == "1 steps, about 2 s; 3 steps are finished already"
    assert list(summary(study(*[("one", measures())] * 150)))[-1] == "150 steps, about 5 min"


def kills_itself(lab: Any) -> Iterator[MeasuredOutcome]:
    yield made("half of a step")
    os.kill(os.getpid(), signal.SIGKILL)


def run_until_killed(folder: Path) -> None:
    """Run a study in a process that ends without any cleanup in the study's third step."""
    run_in(folder, study(("one", measures()), ("one", measures("a", "b")), ("one", kills_itself)))


def test_a_killed_study_is_resumed(tmp_path: Path) -> None:
    program = (
        f"from pathlib import Path; from {__name__} import run_until_killed; run_until_killed(Path({str(tmp_path)!r}))"
    )
    killed = subprocess.run([sys.executable, "-c", program], timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    of = study(("one", measures()), ("one", measures("not again")), ("one", measures("c")), ("one", measures("d")))
    done, heard = run_in(tmp_path, of)
    assert heard == ["building one", "step 3", "measured c", "done", "step 4", "measured d", "done"]
    assert [outcome.case.selection for outcome in done.outcomes] == ["a", "b", "c", "d"]
    with (tmp_path / "results.csv").open(newline="") as file:
        assert [line["selection"] for line in csv.DictReader(file)] == ["a", "b", "c", "d"]
    assert json.loads((tmp_path / "manifest.json").read_text())["resumed_steps"] == 2
    again, heard = run_in(tmp_path, of)
    assert (len(again.outcomes), heard) == (4, []), "a finished study only writes its report again"


def test_repetitions_with_the_same_name_are_different_steps(tmp_path: Path) -> None:
    rain = fails_after("half", error=LbdnsError("it rained"))

    def twice(first: Doing) -> StudyPlan:
        of = study(("one", first), ("one", measures("second")))
        return replace(of, steps=tuple(replace(step, name="the same") for step in of.steps))

    run_in(tmp_path, twice(rain))
    done, heard = run_in(tmp_path, twice(measures("first")))
    assert heard == ["building one", "the same", "measured first", "done"]
    assert sorted(outcome.case.selection for outcome in done.outcomes) == ["first", "second"]


def test_a_required_step_is_repeated_and_its_new_outcome_applies(tmp_path: Path) -> None:
    def needing(carried: str, last: Doing) -> StudyPlan:
        of = study(("one", measures(carried)), ("one", measures("a")), ("one", last))
        return replace(of, steps=(replace(of.steps[0], needed=True), *of.steps[1:]))

    run_in(tmp_path, needing("carried", fails_after(error=KeyboardInterrupt())))
    done, heard = run_in(tmp_path, needing("carried again", measures("b")))
    assert heard[1::3] == ["step 1", "step 3"]
    assert [outcome.case.selection for outcome in done.outcomes] == ["a", "carried again", "b"]
    done, _ = run_in(tmp_path, needing("no more", measures("no more")))
    assert [outcome.case.selection for outcome in done.outcomes] == ["carried again", "a", "b"]
