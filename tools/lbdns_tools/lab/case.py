"""What was measured in a lab, and what it came to: one case, its row of figures, the machines meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lbdns_tools.load.output import Row


@dataclass(frozen=True, slots=True)
class Case:
    """One point of a study, in the words of its results.

    ``selection`` is who chose the server: single, alone, round_robin, best, best_score, haproxy, ...; ``resolve`` how
    often clients ask (connection, webstone, ...), "" where nobody does; ``target`` the name or address they ask for.
    ``farm`` tells farms of one study apart, such as unequal and equal. ``more`` are columns of one study alone.
    """

    selection: str
    workload: str
    resolve: str
    target: str
    farm: str = ""
    more: Mapping[str, str | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sample:
    """One second of the lab: by the name of a group, CPU in % of one core, memory in bytes."""

    time: float  # Unix, at the end of the second
    cpu: Mapping[str, float]
    memory: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case that was measured. ``samples`` are of the seconds that count, the warm-up left out."""

    case: Case
    row: Row
    samples: tuple[Sample, ...] = ()
    answers: Mapping[str, int] = field(default_factory=dict)  # member -> how often DNS gave it meanwhile

    def cpu_percent(self, group: str) -> float | None:
        """Of one core, in the mean; None if it was never read."""
        values = [sample.cpu[group] for sample in self.samples if group in sample.cpu]
        return sum(values) / len(values) if values else None

    def memory_bytes(self, group: str) -> int | None:
        """The highest; None if it was never read."""
        return max((sample.memory[group] for sample in self.samples if group in sample.memory), default=None)
