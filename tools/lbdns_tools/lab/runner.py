"""A study done: labs built, steps taken one after another, everything measured kept, a report in the end.

Whatever happens meanwhile, a step that fails or Ctrl-C: what was measured until then is written, and labs are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from lbdns.errors import LbdnsError
from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import Farm
from lbdns_tools.lab.presets.preset import Preset, Settings, Step, Study
from lbdns_tools.lab.report import manifest
from lbdns_tools.lab.report.page import write_report
from lbdns_tools.lab.results import Results

if TYPE_CHECKING:
    from lbdns_tools.lab.lab import Lab

MakeLab = Callable[[Farm], AbstractContextManager["Lab"]]
#: Steps that fail one after another before the rest of a farm's are left out: it isn't the step then
MOST_FAILURES: Final = 3


class Watcher(Protocol):
    """Who is told how far a study is."""

    def building(self, farm: str) -> None: ...

    def begins(self, step: Step) -> None: ...

    def measured(self, outcome: Outcome) -> None: ...

    def ends(self, step: Step, error: LbdnsError | None) -> None: ...


@dataclass(slots=True)
class Done:
    """What came of a study. ``failures`` are told in words; ``error`` is what ended it early, which is to be raised."""

    outcomes: list[Outcome] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def interrupted(self) -> bool:
        return isinstance(self.error, KeyboardInterrupt)


def run(preset: Preset, study: Study, settings: Settings, folder: Path, make_lab: MakeLab, watcher: Watcher) -> Done:
    """Do a study and write its results and its report into a folder that exists. Raises LbdnsError."""
    document = manifest.begin(preset.name, asdict(settings), study.farms)
    with Results(folder, preset.name, study.farms.values()) as results:

        def keep(outcome: Outcome) -> None:
            results.add(outcome)
            watcher.measured(outcome)

        done = take_steps(study, make_lab, keep, watcher)
    document = manifest.end(document, done.failures, done.interrupted)
    write_report(folder, preset.title, study.sections(done.outcomes), document)
    return done


def take_steps(study: Study, make_lab: MakeLab, keep: Callable[[Outcome], None], watcher: Watcher) -> Done:
    """Each farm's lab is built once for the steps that follow one another, and anew after one that failed."""
    done = Done()
    try:
        for farm, steps in groupby(study.steps, key=lambda step: step.farm):
            _on_farm(study.farms, farm, list(steps), done, make_lab, keep, watcher)
    except (Exception, KeyboardInterrupt) as error:  # labs are gone; the caller writes what there is, and raises it
        done.error = error
        if not done.interrupted:
            done.failures.append(f"ended by {type(error).__name__}: {error}")
    return done


def _on_farm(
    farms: Mapping[str, Farm],
    farm: str,
    steps: list[Step],
    done: Done,
    make_lab: MakeLab,
    keep: Callable[[Outcome], None],
    watcher: Watcher,
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
            done.failures.append(f"{farm}: the lab, {f'for {step.name}' if step else 'at its end'}: {error}")
        if step is not None:  # it failed, and may have left the lab other than it found it
            in_vain += 1
            step = next(left, None)
        if in_vain == MOST_FAILURES:
            _give_up(farm, [*([step] if step else []), *left], done)
            return


def _fails(step: Step, lab: Lab, done: Done, keep: Callable[[Outcome], None], watcher: Watcher) -> bool:
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


def _give_up(farm: str, left: list[Step], done: Done) -> None:
    if left:
        done.failures.append(
            f"{farm}: {len(left)} more steps were left out, after {MOST_FAILURES} had failed one after another"
        )


def told(study: Study) -> Iterator[str]:
    """What will be done, in words."""
    minutes = study.seconds / 60
    for name, farm in study.farms.items():
        hosts = ", ".join(f"{host.name} {host.cpu:g}" for host in farm.hosts)
        yield f"farm {name}: {hosts} (cores)"
    yield (
        f"{len(study.steps)} steps, about {minutes:.0f} min"
        if minutes >= 2
        else (f"{len(study.steps)} steps, about {study.seconds:.0f} s")
    )
