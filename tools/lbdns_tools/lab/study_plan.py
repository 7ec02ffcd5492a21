"""Defines the elements of a study: settings, farms, steps, and the function that returns the report's sections."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lbdns_shared.errors import ConfigError
from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome

if TYPE_CHECKING:
    from lbdns_tools.lab.report.report_page import ReportSection
    from lbdns_tools.lab.running_lab import Lab


StepKey = tuple[str, int]  # the name of a step, and the number of earlier steps with the same name
EXAMPLES: Final = 10  # the approximate number of step names in the error message if --only matches none


@dataclass(frozen=True, slots=True)
class StudySettings:
    """The settings of a study, from the command-line options. If a setting is None or empty, the study's default
    applies."""

    quick: bool = False
    seconds: float | None = None  # length of a measurement, without its warm-up
    warm_up_s: float | None = None
    repetitions: int = 1
    seed: int = 1
    clients: tuple[int, ...] = ()
    selections: tuple[str, ...] = ()
    only: str = ""  # a regular expression; steps whose name doesn't match are skipped
    workload: str = ""  # of the study webstone: the files that clients request
    intervals: str = ""  # of the study webstone: how often clients look up names again


@dataclass(frozen=True, slots=True)
class StudyStep:
    """One or more related measurements in a lab.

    ``farm`` is the name of a farm in the study. Consecutive steps on the same farm share one lab. ``do`` must yield
    each outcome as soon as it is measured, because a later failure would otherwise discard it. ``do`` must also restore
    the lab's state.
    """

    name: str
    farm: str
    seconds: float  # the expected duration
    do: Callable[[Lab], Iterable[MeasuredOutcome]]
    needed: bool = False  # later steps on the same farm depend on this step, even if --only omits it
    relies_on: str = ""  # another farm, on whose needed steps this step depends


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The farms and steps of a study, which are known before the study starts. ``farms`` maps names to farms."""

    farms: dict[str, LabFarm]
    steps: tuple[StudyStep, ...]
    sections: Callable[[Sequence[MeasuredOutcome]], list[ReportSection]]  # of the report

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    def only(self, pattern: str) -> StudyPlan:
        """Return a copy of the plan with the steps whose names match ``pattern`` and the steps that these require.

        Raises ConfigError.
        """
        try:
            wanted = re.compile(pattern, re.IGNORECASE)
        except re.error as error:
            raise ConfigError(f"--only: {pattern!r} is not a valid regular expression: {error}") from None
        only = self._with_required([wanted.search(step.name) is not None for step in self.steps])
        if not only.steps:
            names = "; ".join(step.name for step in self.steps[:: max(1, len(self.steps) // EXAMPLES)])
            raise ConfigError(f"--only: no step name matches {pattern!r}; examples of step names: {names}")
        used = {step.farm for step in only.steps} | {step.relies_on for step in only.steps}
        return replace(only, farms={name: farm for name, farm in self.farms.items() if name in used})

    def keys(self) -> list[StepKey]:
        """Return a key for each step that is unique within the plan: its name, and how many earlier steps share it."""
        seen: Counter[str] = Counter()
        found = []
        for step in self.steps:
            found.append((step.name, seen[step.name]))
            seen[step.name] += 1
        return found

    def without(self, done: Collection[StepKey]) -> StudyPlan:
        """Return a copy of the plan without the steps in ``done``. The copy contains a step in ``done`` if the
        remaining steps require it. The farms stay the same."""
        return self._with_required([key not in done for key in self.keys()])

    def _with_required(self, wanted: Sequence[bool]) -> StudyPlan:
        """Return a copy of the plan with the steps for which ``wanted`` is set and the steps that these require."""
        kept: list[StudyStep] = []
        farms: set[str] = set()  # the farms of later steps that are kept
        for step, is_wanted in zip(reversed(self.steps), reversed(wanted), strict=True):
            if is_wanted:
                farms |= {step.farm, step.relies_on}
            elif not (step.needed and step.farm in farms):
                continue
            kept.append(step)
        return replace(self, steps=tuple(reversed(kept)))


@dataclass(frozen=True, slots=True)
class StudyPreset:
    """A study that ``lbdns-lab NAME`` can run.

    ``plan`` is called with the settings and the farm from --farm. Without --farm, the farm is None, and the study uses
    its built-in farm.
    """

    name: str
    title: str
    help: str
    plan: Callable[[StudySettings, LabFarm | None], StudyPlan]
