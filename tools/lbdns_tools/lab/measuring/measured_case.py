"""A measured case of a lab study and its outcome: load generator row, per-second machine samples, DNS answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lbdns_tools.load.result_rows import ResultRow


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """One point of a study, with the names that its results use.

    ``selection`` is the way to choose a server: single, alone, round_robin, best, best_score, haproxy, ...; ``resolve``
    how often clients resolve (connection, webstone, ...), "" for an address; ``target`` the name or address that
    clients use. ``farm`` tells a study's farms apart, such as unequal and equal. ``more`` holds columns that only this
    study has.
    """

    selection: str
    workload: str
    resolve: str
    target: str
    farm: str = ""
    more: Mapping[str, str | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MachineSample:
    """One second of a lab: by control group, CPU in % of one core and memory in bytes."""

    time: float  # Unix, at the end of the second
    cpu: Mapping[str, float]
    memory: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class MeasuredOutcome:
    """A measured case. ``samples`` cover the seconds that count, not the warm-up."""

    case: MeasuredCase
    row: ResultRow
    samples: tuple[MachineSample, ...] = ()
    answers: Mapping[str, int] = field(default_factory=dict)  # member -> DNS answers that named it during the run

    def cpu_percent(self, group: str) -> float | None:
        """Return the group's mean CPU in % of one core; None if it was never sampled."""
        values = [sample.cpu[group] for sample in self.samples if group in sample.cpu]
        return sum(values) / len(values) if values else None

    def memory_bytes(self, group: str) -> int | None:
        """Return the group's peak memory; None if it was never sampled."""
        return max((sample.memory[group] for sample in self.samples if group in sample.memory), default=None)
