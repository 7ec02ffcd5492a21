"""Runs a study's steps on a fake lab and returns all outcomes that the steps yield."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from lbdns_tools.lab.measuring import case_measurement
from lbdns_tools.lab.measuring.case_measurement import MeasuredCase, MeasuredOutcome
from lbdns_tools.lab.report.report_page import ReportSection
from lbdns_tools.lab.study_plan import StudyPlan
from lbdns_tools.load.load_plan import OpenLoop
from lbdns_tools.load.load_study import PlannedRun
from lbdns_tools.load.result_rows import ResultRow
from tests.tools.lab.presets.fake_lab import FakeLab
from tests.tools.lab.presets.made_up_courses import course

Measure = Callable[[Any, MeasuredCase, PlannedRun, int], MeasuredOutcome]


@dataclass
class Server:
    """A stand-in for ``measuring.measure``: a farm that refuses requests beyond its selection method's limit."""

    carries: Mapping[str, float]
    calls: list[tuple[MeasuredCase, PlannedRun]] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    def __call__(self, lab: Any, case: MeasuredCase, planned: PlannedRun, repetition: int = 1) -> MeasuredOutcome:
        self.calls.append((case, planned))
        self.meanwhile()
        most = self.carries[case.selection]
        loads = [phase.load for phase in planned.run.phases]
        asked = max((max(load.rates) for load in loads if isinstance(load, OpenLoop)), default=most)
        count, failed = 200, round(200 * max(0.0, 1 - most / asked))
        seconds = count / asked
        of = course([(count, 0.02, failed)], case.selection).row
        figures = replace(of.figures, seconds=seconds, requests_per_s=(count - failed) / seconds)
        row = ResultRow(planned.point, repetition, figures, of.tally, of.begun)
        return MeasuredOutcome(case, row, course([(1, 0.1, 0)], cpu=dict.fromkeys(lab.machines, 5.0)).samples)


def do(study: StudyPlan, lab: FakeLab, measure: Measure, monkeypatch: pytest.MonkeyPatch) -> list[MeasuredOutcome]:
    monkeypatch.setattr(case_measurement, "measure", measure)
    outcomes: list[MeasuredOutcome] = []
    for step in study.steps:
        lab.farm = study.farms[step.farm]
        outcomes += step.do(cast(Any, lab))
    return outcomes


def words_of(sections: Sequence[ReportSection]) -> str:
    return "\n".join(word for section in sections for word in section.words)


def draw(sections: Sequence[ReportSection], folder: Path) -> list[str]:
    """Draw the first and the last chart only, to save time, and return the names of all charts."""
    pictures = [picture for section in sections for picture in section.pictures]
    for picture in (*pictures[:1], *pictures[1:][-1:]):
        picture.draw(folder / f"{picture.name}.svg")
        assert (folder / f"{picture.name}.svg").stat().st_size > 1000
    names = [picture.name for picture in pictures]
    assert len(set(names)) == len(names)
    return names
