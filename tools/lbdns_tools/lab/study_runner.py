"""Runs a study: builds its labs, runs its steps in order, keeps every measurement, and writes the report.

After a failed step or Ctrl-C, everything measured so far is still written, and the labs are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.measuring.measured_case import MeasuredOutcome
from lbdns_tools.lab.measuring.results_csv import ResultFiles
from lbdns_tools.lab.report import report_manifest
from lbdns_tools.lab.report.report_page import write_report
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

MakeLab = Callable[[LabFarm], AbstractContextManager["Lab"]]
#: Consecutive failures after which the rest of a farm's steps are skipped, because the cause is not a single step
MOST_FAILURES: Final = 3


class StudyWatcher(Protocol):
    """The receiver of a study's progress. ``begins`` comes before each step, ``ends`` after it, failed or not."""

    def building(self, farm: str) -> None: ...

    def begins(self, step: StudyStep) -> None: ...

    def measured(self, outcome: MeasuredOutcome) -> None: ...

    def ends(self, step: StudyStep, error: LbdnsError | None) -> None: ...


@dataclass(slots=True)
class StudyResult:
    """A study's outcomes and failures. If ``error`` is set, it ended the study early, and the caller must raise it."""

    outcomes: list[MeasuredOutcome] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def interrupted(self) -> bool:
        return isinstance(self.error, KeyboardInterrupt)


def run(
    preset: StudyPreset,
    study: StudyPlan,
    settings: StudySettings,
    folder: Path,
    make_lab: MakeLab,
    watcher: StudyWatcher,
) -> StudyResult:
    """Run a study and write its results and report into an existing folder. Raises LbdnsError."""
    document = report_manifest.begin(preset.name, asdict(settings), study.farms)
    with ResultFiles(folder, preset.name, study.farms.values()) as results:

        def keep(outcome: MeasuredOutcome) -> None:
            results.add(outcome)
            watcher.measured(outcome)

        done = take_steps(study, make_lab, keep, watcher)
    document = report_manifest.end(document, done.failures, done.interrupted)
    write_report(folder, preset.title, study.sections(done.outcomes), document)
    return done


def take_steps(
    study: StudyPlan, make_lab: MakeLab, keep: Callable[[MeasuredOutcome], None], watcher: StudyWatcher
) -> StudyResult:
    """Run all steps; consecutive steps on a farm share one lab, which is rebuilt after a failed step."""
    done = StudyResult()
    try:
        for farm, steps in groupby(study.steps, key=lambda step: step.farm):
            _on_farm(study.farms, farm, list(steps), done, make_lab, keep, watcher)
    except (Exception, KeyboardInterrupt) as error:  # labs are gone; the caller writes the outcomes, then raises it
        done.error = error
        if not done.interrupted:
            done.failures.append(f"the study ended early with {type(error).__name__}: {error}")
    return done


def _on_farm(
    farms: Mapping[str, LabFarm],
    farm: str,
    steps: list[StudyStep],
    done: StudyResult,
    make_lab: MakeLab,
    keep: Callable[[MeasuredOutcome], None],
    watcher: StudyWatcher,
) -> None:
    left, in_vain = iter(steps), 0
    step = next(left, None)
    while step is not None:
        watcher.building(farm)
        try:
            with make_lab(farms[farm]) as lab:
                while step is not None and not _fails(step, lab, done, keep, watcher):
                    step, in_vain = next(left, None), 0
        except LbdnsError as error:
            done.failures.append(f"{farm}: the lab failed {f'before {step.name}' if step else 'at its end'}: {error}")
        if step is not None:  # the step failed and may have left the lab in another state
            in_vain += 1
            step = next(left, None)
        if in_vain == MOST_FAILURES:
            _give_up(farm, [*([step] if step else []), *left], done)
            return


def _fails(
    step: StudyStep, lab: Lab, done: StudyResult, keep: Callable[[MeasuredOutcome], None], watcher: StudyWatcher
) -> bool:
    watcher.begins(step)
    try:
        for outcome in step.do(lab):
            done.outcomes.append(outcome)
            keep(outcome)
    except LbdnsError as error:
        done.failures.append(f"{step.name}: {error}")
        watcher.ends(step, error)
        return True
    watcher.ends(step, None)
    return False


def _give_up(farm: str, left: list[StudyStep], done: StudyResult) -> None:
    if left:
        done.failures.append(f"{farm}: {len(left)} more steps were skipped after {MOST_FAILURES} consecutive failures")


def summary(study: StudyPlan) -> Iterator[str]:
    """Yield lines that describe a study's farms, and its number of steps and duration."""
    minutes = study.seconds / 60
    for name, farm in study.farms.items():
        hosts = ", ".join(f"{host.name} {host.cpu:g}" for host in farm.hosts)
        yield f"farm {name}: {hosts} (cores)"
    yield (
        f"{len(study.steps)} steps, about {minutes:.0f} min"
        if minutes >= 2
        else (f"{len(study.steps)} steps, about {study.seconds:.0f} s")
    )
