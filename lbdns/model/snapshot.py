"""The snapshot: the immutable table of all members' newest readings, from which answers and pages are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

NO_METRICS: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reading:
    """The newest accepted report of one member, with its score.

    ``received`` is in seconds on the receiver's monotonic clock, ``interval`` in seconds as the agent declares it.
    ``gone`` is true after a "bye". ``alarm`` is the agent's reason while it asks for no traffic, else empty.
    ``metrics`` come from the report; an alarm or a "bye" without metrics keeps the previous ones. ``shadow_score`` is
    the report's score by ``[collector] shadow_score``, None if that is not configured.
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

    A full name is lower case without the final dot: ``gandalf.hobbit``. ``version`` increases with every snapshot that
    a source publishes.
    """

    version: int = 0
    readings: Mapping[str, Reading] = field(default_factory=dict)


EMPTY_SNAPSHOT: Final = Snapshot()
