"""Builds the labs of a study, runs the steps in order, saves every measurement, and writes the report.

If a step fails or the user presses Ctrl-C, the runner writes all results so far and removes the labs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.measuring.outcome_journal import OutcomeJournal
from lbdns_tools.lab.measuring.results_csv import ResultFiles
from lbdns_tools.lab.report import report_manifest
from lbdns_tools.lab.report.report_page import write_report
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.lab.study_progress import StudyProgress

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

MakeLab = Callable[[LabFarm], AbstractContextManager["Lab"]]
#: Consecutive failures after which the rest of a farm's steps are skipped, because the cause is not a single step
MOST_FAILURES: Final = 3


@dataclass(slots=True)
class StudyResult:
    """The outcomes and failures of a study.

    ``error`` is the exception that ended the study early, or None. If ``error`` is not None, the caller must raise it.
    """

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
    watcher: StudyProgress,
    journal: OutcomeJournal,
) -> StudyResult:
    """Run the steps of a study that ``journal`` does not contain, and write the results and the report to an existing
    directory. The results include those in the journal. Raises LbdnsError."""
    keys = dict(zip(map(id, study.steps), study.keys(), strict=True))
    left = study.without(journal.done)
    repeated = {keys[id(step)] for step in left.steps}
    earlier = [outcome for key, found in journal.done.items() if key not in repeated for outcome in found]
    document = report_manifest.begin(preset.name, asdict(settings), study.farms)
    document["resumed_steps"] = len(study.steps) - len(left.steps)
    with ResultFiles(folder, preset.name, study.farms.values()) as results:
        for outcome in earlier:
            results.add(outcome)
        done = take_steps(left, make_lab, results.add, watcher, lambda step, found: journal.add(keys[id(step)], found))
    done.outcomes[:0] = earlier
    document = report_manifest.end(document, done.failures, done.interrupted)
    write_report(folder, preset.title, study.sections(done.outcomes), document)
    return done


def _forget(step: StudyStep, outcomes: list[MeasuredOutcome]) -> None:
    """Keep no record of a finished step."""


def take_steps(
    study: StudyPlan,
    make_lab: MakeLab,
    keep: Callable[[MeasuredOutcome], None],
    watcher: StudyProgress,
    finish: Callable[[StudyStep, list[MeasuredOutcome]], None] = _forget,
) -> StudyResult:
    """Run all steps of a study. Consecutive steps on the same farm share one lab, which is rebuilt after a failure.

    ``keep`` is called with each outcome, and ``finish`` with each step that has not failed.
    """
    steps = _StepRunner(make_lab, keep, watcher, finish)
    done = steps.done
    try:
        for name, on_farm in groupby(study.steps, key=lambda step: step.farm):
            steps.take(name, study.farms[name], list(on_farm))
    except (Exception, KeyboardInterrupt) as error:  # labs are removed; the caller writes the results and raises it
        done.error = error
        if not done.interrupted:
            done.failures.append(f"the study ended early with {type(error).__name__}: {error}")
    return done


@dataclass(frozen=True, slots=True)
class _StepRunner:
    make_lab: MakeLab
    keep: Callable[[MeasuredOutcome], None]
    watcher: StudyProgress
    finish: Callable[[StudyStep, list[MeasuredOutcome]], None]
    done: StudyResult = field(default_factory=StudyResult)

    def take(self, name: str, farm: LabFarm, left: list[StudyStep]) -> None:
        """Run the steps in ``left`` on one farm, in order. Each step that has been run is removed from ``left``."""
        consecutive_failures = 0
        while left and consecutive_failures < MOST_FAILURES:
            self.watcher.building(name)
            try:
                with self.make_lab(farm) as lab:
                    while left and not self._fails(left[0], lab):
                        left.pop(0)
                        consecutive_failures = 0
            except LbdnsError as error:
                when = f"before {left[0].name}" if left else "during cleanup"
                self.done.failures.append(f"{name}: the lab failed {when}: {error}")
            if left:  # the step failed and may have left the lab in another state
                left.pop(0)
                consecutive_failures += 1
        if left:
            skipped = f"the remaining {len(left)} steps were skipped after {MOST_FAILURES} consecutive failures"
            self.done.failures.append(f"{name}: {skipped}")

    def _fails(self, step: StudyStep, lab: Lab) -> bool:
        self.watcher.begins(step)
        failure = None
        found = []
        try:
            for outcome in step.do(lab):
                found.append(outcome)
                self.done.outcomes.append(outcome)
                self.keep(outcome)
                self.watcher.measured(outcome)
            self.finish(step, found)
        except LbdnsError as error:
            failure = error
            self.done.failures.append(f"{step.name}: {error}")
        self.watcher.ends(step, failure)
        return failure is not None


def summary(study: StudyPlan, earlier: int = 0) -> Iterator[str]:
    """Yield lines of text with a study's farms, number of steps and expected duration. ``earlier`` is the number of
    steps that were finished before the study was resumed."""
    minutes = study.seconds / 60
    for name, farm in study.farms.items():
        hosts = ", ".join(f"{host.name} {host.cpu:g}" for host in farm.hosts)
        yield f"farm {name}: {hosts} (cores)"
    length = f"{minutes:.0f} min" if minutes >= 2 else f"{study.seconds:.0f} s"
    yield f"{len(study.steps)} steps, about {length}" + (f"; {earlier} steps are finished already" if earlier else "")
