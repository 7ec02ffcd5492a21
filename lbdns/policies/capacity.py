"""What a member can carry: requests per CPU second of its web server, seen over the last minute or so. Pure.

Total utilisation would misjudge a host that has other work; the web server's own CPU seconds don't.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

MEMORY: Final = 60.0  # s: time constant with which old observations fade
PRIOR: Final = 0.5  # CPU seconds: how much observation outweighs the belief that all CPUs are alike
ENOUGH: Final = 20.0  # requests of the whole pool before any of this counts


class Work:
    """The requests and the CPU seconds of one member's web server, older ones fading."""

    def __init__(self) -> None:
        self.requests = 0.0
        self.cpu_seconds = 0.0
        self.counted = False  # whether the member counts its requests at all
        self._last: Mapping[str, float] | None = None

    def observe(self, metrics: Mapping[str, float], seconds: float) -> None:
        """A new report, ``seconds`` after the one before. Counters that fell back (a restart) only begin anew."""
        last, self._last = self._last, metrics
        self.counted = "requests_total" in metrics
        if last is None or seconds <= 0:
            return
        fading = math.exp(-seconds / MEMORY)
        self.requests *= fading
        self.cpu_seconds *= fading
        requests = _increase(last, metrics, "requests_total")
        cpu = _increase(last, metrics, "httpd_cpu_seconds")
        if cpu is None and "cpu_idle" in metrics and "httpd_cpu_seconds" not in metrics:
            cpu = (1 - metrics["cpu_idle"] / 100) * metrics.get("cpu_count", 1.0) * seconds
        if requests is not None and cpu is not None:
            self.requests += requests
            self.cpu_seconds += max(0.0, cpu)


def _increase(last: Mapping[str, float], now: Mapping[str, float], counter: str) -> float | None:
    if counter not in last or counter not in now or now[counter] < last[counter]:
        return None
    return now[counter] - last[counter]


def capacities(works: Sequence[Work], cores: Sequence[float | None]) -> tuple[float, ...]:
    """Each member's capacity in requests/s; in proportion to its cores until the pool has enough requests.

    ``cores`` is None where the member doesn't tell: the mean of the others, or 1.
    """
    count = filled(cores)
    if not measured(works):
        return tuple(count)
    common = sum(work.requests for work in works) / sum(
        work.cpu_seconds for work in works
    )  # requests per CPU second, all members together
    return tuple(
        max(1e-9, m * (work.requests + PRIOR * common) / (work.cpu_seconds + PRIOR) if work.counted else m * common)
        for work, m in zip(works, count, strict=True)
    )


def measured(works: Sequence[Work]) -> bool:
    """Whether enough was seen of the pool to tell its capacity in requests/s."""
    return sum(work.requests for work in works) > ENOUGH and sum(work.cpu_seconds for work in works) > 0


def loads(metrics: Sequence[Mapping[str, float]], capacity: Sequence[float]) -> tuple[float, ...]:
    """Each member's load now: requests at work, or runnable tasks if those are more.

    A member that tells neither is taken to be as full, for its capacity, as the others together.
    """
    known = [load_of(member) for member in metrics]
    full = sum(load for load in known if load is not None)
    room = sum(c for load, c in zip(known, capacity, strict=True) if load is not None)
    level = full / room if room > 0 else 0.0
    return tuple(level * c if load is None else load for load, c in zip(known, capacity, strict=True))


def load_of(metrics: Mapping[str, float]) -> float | None:
    """Requests at work on one member, None if it doesn't tell."""
    found = [metrics[name] for name in ("busy_workers", "run_queue") if name in metrics]
    return max(0.0, *found) if found else None


def filled(values: Iterable[float | None]) -> list[float]:
    """``values`` with the mean of the others in the place of those that are not known; 1 if none is."""
    values = list(values)
    known = [value for value in values if value is not None and value > 0]
    mean = sum(known) / len(known) if known else 1.0
    return [value if value is not None and value > 0 else mean for value in values]
