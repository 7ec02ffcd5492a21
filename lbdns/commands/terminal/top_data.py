"""The data that ``lbdns top`` shows: the latest status, each member's recent values and the latest events. Sans-I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

KEPT: Final = 60  # samples per series: the width of the widest sparkline
EVENTS: Final = 200

Document = Mapping[str, Any]


class Series:
    """One member's recent values for the sparklines, with None for missing values."""

    def __init__(self) -> None:
        self.answers: deque[float | None] = deque(maxlen=KEPT)  # per second
        self.score: deque[float | None] = deque(maxlen=KEPT)
        self.cpu: deque[float | None] = deque(maxlen=KEPT)  # % busy


def newest(values: deque[float | None]) -> float | None:
    return values[-1] if values else None


class TopData:
    """The data that ``lbdns top`` displays. The event stream updates the data."""

    def __init__(self) -> None:
        self.status: Document | None = None
        self.received = 0.0  # when the status arrived, in seconds on the caller's clock
        self.queries_per_s: float | None = None
        self.events: deque[Document] = deque(maxlen=EVENTS)
        self.trouble = ""  # why no data arrives; empty if all is well
        self.series: dict[tuple[str, str], Series] = {}
        self._sampled: tuple[float, int, dict[tuple[str, str], int]] | None = None

    def take_status(self, status: Document, now: float) -> None:
        self.status, self.received, self.trouble = status, now, ""

    def take_event(self, event: Document) -> None:
        if event not in self.events:
            self.events.append(event)

    def series_of(self, pool: Document, member: Document) -> Series:
        return self.series.get((pool["name"], member["name"])) or Series()

    def sample(self, now: float) -> None:
        """Append each member's newest values to its series.

        Raises KeyError, TypeError or ValueError if the status is not valid.
        """
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
