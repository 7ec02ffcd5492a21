"""A study's steps taken on a made-up lab: everything that they yield."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from lbdns_tools.lab import measuring
from lbdns_tools.lab.case import Case, Outcome
from lbdns_tools.lab.presets.preset import Study
from lbdns_tools.lab.report.section import Section
from lbdns_tools.load.output import Row
from lbdns_tools.load.plan import Open
from lbdns_tools.load.study import Planned
from tests.tools.lab.presets.courses import course
from tests.tools.lab.presets.made_up import FakeLab

Measure = Callable[[Any, Case, Planned, int], Outcome]


@dataclass
class Server:
    """Instead of ``measuring.measure``: a farm that carries so many requests/s, by selection, and refuses the rest."""

    carries: Mapping[str, float]
    calls: list[tuple[Case, Planned]] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    def __call__(self, lab: Any, case: Case, planned: Planned, repetition: int = 1) -> Outcome:
        self.calls.append((case, planned))
        self.meanwhile()
        most = self.carries[case.selection]
        loads = [phase.load for phase in planned.run.phases]
        asked = max((max(load.rates) for load in loads if isinstance(load, Open)), default=most)
        count, failed = 200, round(200 * max(0.0, 1 - most / asked))
        seconds = count / asked
        of = course([(count, 0.02, failed)], case.selection).row
        figures = replace(of.figures, seconds=seconds, requests_per_s=(count - failed) / seconds)
        row = Row(planned.point, repetition, figures, of.tally, of.begun)
        return Outcome(case, row, course([(1, 0.1, 0)], cpu=dict.fromkeys(lab.machines, 5.0)).samples)


def do(study: Study, lab: FakeLab, measure: Measure, monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    monkeypatch.setattr(measuring, "measure", measure)
    outcomes: list[Outcome] = []
    for step in study.steps:
        lab.farm = study.farms[step.farm]
        outcomes += step.do(cast(Any, lab))
    return outcomes


def words_of(sections: Sequence[Section]) -> str:
    return "\n".join(word for section in sections for word in section.words)


def draw(sections: Sequence[Section], folder: Path) -> list[str]:
    """Draw the first and the last, which takes a second; the names of all."""
    pictures = [picture for section in sections for picture in section.pictures]
    for picture in (*pictures[:1], *pictures[1:][-1:]):
        picture.draw(folder / f"{picture.name}.svg")
        assert (folder / f"{picture.name}.svg").stat().st_size > 1000
    names = [picture.name for picture in pictures]
    assert len(set(names)) == len(names)
    return names
