"""A trial: one way of choosing, tried on a farm for a while. Plain data, whoever runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from lbdns.config import Term
from lbdns.metrics import CATALOGUE, Better

#: A metric that decides alone: a limit beyond all that is measured, and a weight that tells the smallest differences
#: apart before scores are cut to whole numbers. Both are within the ranges of [score.NAME].
_FAR: Final = 1e6
_FINE: Final = 1e9


@dataclass(frozen=True, slots=True)
class Trial:
    """What chooses: a policy, and the terms of the score it goes by."""

    name: str
    policy: str
    terms: Mapping[str, Term] | None = None  # None: the score needs none, or is the built-in "thesis"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one trial of one round found. ``ranges``: by metric, what 99 % of its values do not exceed."""

    throughput_per_s: float  # responses
    mean_ms: float  # response time
    ranges: Mapping[str, float] = field(default_factory=dict)


class Farm(Protocol):
    """Where trials are run."""

    def metrics(self) -> Sequence[str]:
        """The metrics that all members report and of which one way is known to be better."""

    def run(self, trials: Sequence[Trial], rounds: int, on_done: Callable[[], None]) -> list[list[Outcome]]:
        """For each trial the outcomes of its rounds; ``on_done`` after each. Raises LbdnsError."""


BASE: Final = Trial("round_robin", "round_robin")


def alone(metric: str) -> Trial:
    """The trial in which ``metric`` decides, and nothing else."""
    return Trial(metric, "best_score", {metric: Term(_FINE, _FAR, better(metric))})


def better(metric: str) -> Better:
    """Which way is better. Raises KeyError if nobody knows."""
    found = CATALOGUE[metric].better
    if found is None:
        raise KeyError(metric)
    return found


def weighable(metrics: Mapping[str, float]) -> list[str]:
    """Those of ``metrics`` that can be a term of a score, in the catalogue's order."""
    return [name for name, known in CATALOGUE.items() if known.better and name in metrics]


def percentile(values: Sequence[float], share: float = 0.99) -> float:
    """The smallest of ``values`` that ``share`` of them do not exceed. Raises ValueError if there are none."""
    if not values:
        raise ValueError("no values have no percentile")
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
