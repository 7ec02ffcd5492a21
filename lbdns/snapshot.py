"""The snapshot: the immutable table of readings that every answer and every page is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

NO_METRICS: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reading:
    """The newest accepted report of one member, with its score.

    ``received`` is the receiver's monotonic clock, in seconds. ``gone`` after a "bye". ``alarm`` is the
    agent's reason while it asks not to be chosen, else empty. ``metrics`` are those of the report;
    an alarm or a "bye" without any leaves those of the report before. ``shadow_score`` is by the score that is tried
    beside the one that counts, None without any.
    """

    received: float
    interval: float
    score: int
    metrics: Mapping[str, float] = field(default_factory=lambda: NO_METRICS, repr=False)
    alarm: str = ""
    gone: bool = False
    shadow_score: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The newest reading of every member that has ever reported, by the member's full name.

    A full name is lower case, without the final dot: ``gandalf.hobbit``. ``version`` grows with every
    snapshot one source publishes.
    """

    version: int = 0
    readings: Mapping[str, Reading] = field(default_factory=dict)


EMPTY: Final = Snapshot()
