"""The data of ``lbdns top``: newest status, recent values of each member, newest events. Sans-I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

KEPT: Final = 60  # samples per series: the width of the widest sparkline
EVENTS: Final = 200

Status = Mapping[str, Any]


def _series() -> deque[float | None]:
    return deque(maxlen=KEPT)


@dataclass(slots=True)
class Series:
    """Recent values of one member, for sparklines; None where a value is missing."""

    answers: deque[float | None] = field(default_factory=_series)  # per second
    score: deque[float | None] = field(default_factory=_series)
    cpu: deque[float | None] = field(default_factory=_series)  # % busy

    @property
    def answers_per_s(self) -> float | None:
        return self.answers[-1] if self.answers else None


class Board:
    """The event stream updates it, the layout reads it."""

    def __init__(self) -> None:
        self.status: Status | None = None
        self.received = 0.0  # arrival of the status, seconds on the caller's clock
        self.queries_per_s: float | None = None
        self.events: deque[Mapping[str, Any]] = deque(maxlen=EVENTS)
        self.trouble = ""  # why no data arrives; empty if all is well
        self.series: dict[tuple[str, str], Series] = {}
        self._sampled: tuple[float, int, dict[tuple[str, str], int]] | None = None

    def take_status(self, status: Status, now: float) -> None:
        self.status, self.received, self.trouble = status, now, ""

    def take_event(self, event: Mapping[str, Any]) -> None:
        if event not in self.events:
            self.events.append(event)

    def sample(self, now: float) -> None:
        """Append the newest values to their series. Raises KeyError, TypeError or ValueError for a bad status."""
        if self.status is None:
            return
        members = {(pool["name"], m["name"]): m for pool in self.status["pools"] for m in pool["members"]}
        counts = {key: int(member["answers"]) for key, member in members.items()}
        queries = int(self.status["server"]["queries"])
        before, self._sampled = self._sampled, (now, queries, counts)
        past = now - before[0] if before else 0.0
        if before and past > 0:
            self.queries_per_s = max(0, queries - before[1]) / past
        for key in self.series.keys() - members.keys():
            del self.series[key]
        for key, member in members.items():
            series = self.series.setdefault(key, Series())
            idle = member["metrics"].get("cpu_idle")
            series.score.append(member["score"])
            series.cpu.append(None if idle is None else 100.0 - float(idle))
            if before and past > 0 and key in before[2]:
                # A restarted server counts from 0
                series.answers.append(max(0, counts[key] - before[2][key]) / past)
