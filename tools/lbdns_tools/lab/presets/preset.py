"""What a study in the lab is made of: its farms, its steps, what its report shows. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lbdns.errors import ConfigError
from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import Farm

if TYPE_CHECKING:
    from lbdns_tools.lab.lab import Lab
    from lbdns_tools.lab.report.section import Section


EXAMPLES: Final = 10  # of names of steps, about, that are told to who asked for others


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says of a study. None and empty: the preset's own."""

    quick: bool = False
    seconds: float | None = None  # a measurement takes, the warm-up apart
    warm_up_s: float | None = None
    repetitions: int = 1
    seed: int = 1
    clients: tuple[int, ...] = ()
    selections: tuple[str, ...] = ()
    only: str = ""  # a pattern; steps in whose name it isn't found are left out


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is done in a lab: a measurement, or some that hang together.

    ``farm`` is one of the preset's; a lab is built once for all steps of a farm that follow one another. ``do`` yields
    what it has measured at once, so that it isn't lost if the rest fails. It leaves the lab as it found it.
    """

    name: str
    farm: str
    seconds: float  # that it will take, about
    do: Callable[[Lab], Iterable[Outcome]]
    needed: bool = False  # by steps that follow it on the same farm, ...
    relies_on: str = ""  # ... and by this one: another farm, where they are done


@dataclass(frozen=True, slots=True)
class Study:
    """What will be done, known before it begins. ``farms``: name -> farm."""

    farms: dict[str, Farm]
    steps: tuple[Step, ...]
    sections: Callable[[Sequence[Outcome]], list[Section]]  # of the report

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    def only(self, pattern: str) -> Study:
        """The steps in whose name it is found, whatever the case, and what those need. Raises ConfigError."""
        try:
            wanted = re.compile(pattern, re.IGNORECASE)
        except re.error as error:
            raise ConfigError(f"--only: {pattern!r} is no regular expression: {error}") from None
        kept: list[Step] = []
        farms: set[str] = set()  # with steps that are wanted, seen from the end
        for step in reversed(self.steps):
            if wanted.search(step.name):
                farms |= {step.farm, step.relies_on}
            elif not (step.needed and step.farm in farms):
                continue
            kept.append(step)
        if not kept:
            names = "; ".join(step.name for step in self.steps[:: max(1, len(self.steps) // EXAMPLES)])
            raise ConfigError(f"--only: there is no {pattern!r} in the name of any step; such are: {names}")
        mine = {name: farm for name, farm in self.farms.items() if name in farms}
        return replace(self, farms=mine, steps=tuple(reversed(kept)))


@dataclass(frozen=True, slots=True)
class Preset:
    """``plan`` is given the settings and the farm of --farm, None for the preset's own. It raises ConfigError."""

    name: str
    title: str
    help: str
    plan: Callable[[Settings, Farm | None], Study]
