"""What a study in the lab is made of: its farms, its steps, what its report shows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import Farm

if TYPE_CHECKING:
    from lbdns_tools.lab.lab import Lab
    from lbdns_tools.lab.report.section import Section


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


@dataclass(frozen=True, slots=True)
class Study:
    """What will be done, known before it begins. ``farms``: name -> farm."""

    farms: dict[str, Farm]
    steps: tuple[Step, ...]
    sections: Callable[[Sequence[Outcome]], list[Section]]  # of the report

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)


@dataclass(frozen=True, slots=True)
class Preset:
    """``plan`` is given the settings and the farm of --farm, None for the preset's own. It raises ConfigError."""

    name: str
    title: str
    help: str
    plan: Callable[[Settings, Farm | None], Study]
