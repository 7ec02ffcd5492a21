"""What a member can carry: requests per CPU second of its web server, seen over the last minute or so. Pure.

Total utilisation would misjudge a host that has other work; the web server's own CPU seconds don't.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

MEMORY: Final = 60.0  # s: time constant with which old observations fade
RECENT: Final = 4.0  # s: the same for what requests cost just now
CHANGED: Final = 2.0  # times as dear, or as cheap, as over the last minute: then they have become others ...
UNLIKELY: Final = 4.0  # ... if that is so many standard deviations, ...
SQUARES: Final = 5.0  # ... the mean square of what requests cost being so many times the square of the mean
LITTLE: Final = 0.05  # CPU seconds, five ticks of a kernel's clock: what counters miss by must not look like a change
PRIOR: Final = 0.5  # CPU seconds: how much observation outweighs the belief that all CPUs are alike
ENOUGH: Final = 20.0  # requests of the whole pool before any of this counts
_STEPS: Final = 20  # of the search for how much members really differ, each halving what is left
SURE: Final = 1e-6  # the variance, in proportion to its square, of what is as good as certain
LEAST_CORES: Final = 1e-3  # of one: no quota is smaller ...
MOST_CORES: Final = 1e6  # ... and no machine larger
MOST: Final = 1e15  # requests, or seconds: beyond, sums of floats lose single ones


class Work:
    """The requests and the CPU seconds of one member's web server, older ones fading."""

    def __init__(self) -> None:
        self.requests = 0.0
        self.cpu_seconds = 0.0
        self.recent_requests = self.recent_cpu_seconds = 0.0
        # Squares and products of what single reports brought: how much requests differ in what they cost
        self._rr = self._rb = self._bb = 0.0
        self.counted = False  # whether the member counts its requests at all; a report that lacks them is no proof
        self._last: Mapping[str, float] | None = None

    def observe(self, metrics: Mapping[str, float], seconds: float, own: float = 0.0) -> None:
        """A new report, ``seconds`` after the one before. Counters that fell back (a restart) only begin anew.

        ``own`` requests were the agent's questions. They cost next to nothing: taken for others, those of an idle night
        would make every server look ten times as fast as it is when a crowd comes in the morning.
        """
        last, self._last = self._last, metrics
        self.counted = self.counted or "requests_total" in metrics
        if last is None or seconds <= 0:
            return
        fading = math.exp(-seconds / MEMORY)
        self.requests *= fading
        self.cpu_seconds *= fading
        soon = math.exp(-seconds / RECENT)
        self.recent_requests *= soon
        self.recent_cpu_seconds *= soon
        requests = _increase(last, metrics, "requests_total")
        cpu = _increase(last, metrics, "httpd_cpu_seconds")
        if cpu is None and "cpu_idle" in metrics and "httpd_cpu_seconds" not in metrics:
            cpu = (1 - metrics["cpu_idle"] / 100) * metrics.get("cpu_count", 1.0) * seconds
        if requests is not None and cpu is not None:
            requests, cpu = max(0.0, requests - own), max(0.0, cpu)
            self.requests += requests
            self.cpu_seconds += cpu
            self.recent_requests += requests
            self.recent_cpu_seconds += cpu
            squared = fading * fading  # a sum whose terms fade has a variance whose terms fade twice as fast
            self._rr = self._rr * squared + requests * requests
            self._rb = self._rb * squared + requests * cpu
            self._bb = self._bb * squared + cpu * cpu

    @property
    def doubt(self) -> float:
        """The variance of ``requests / cpu_seconds`` in proportion to its square; inf if nothing can be said."""
        if self.requests <= 0 or self.cpu_seconds <= 0:
            return math.inf
        each = self.cpu_seconds / self.requests
        return max(0.0, self._bb - 2 * self._rb * each + self._rr * each * each) / self.cpu_seconds / self.cpu_seconds


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
    common = sum(work.requests for work in works) / sum(work.cpu_seconds for work in works)  # requests per CPU second
    speeds = [
        (work.requests + PRIOR * common) / (work.cpu_seconds + PRIOR) if work.counted else common for work in works
    ]
    doubts = [work.doubt if work.counted else math.inf for work in works]
    speeds = _drawn_together(speeds, doubts)
    pace = _pace(works, speeds)
    return tuple(max(1e-9, m * speed * pace) for speed, m in zip(speeds, count, strict=True))


def _pace(works: Sequence[Work], speeds: Sequence[float]) -> float:
    """How many times the requests that the last minute would let expect CPU seconds do now; 1 unless that is much.

    Pages give way to programs within a second. By the minute's average the pool would then seem to have room for
    twenty times what it carries, and all would be sent to its fastest member.
    """
    requests = sum(work.recent_requests for work in works)
    if requests < 1:
        return 1.0
    usual = sum(work.recent_requests / speed for work, speed in zip(works, speeds, strict=True))
    pace = (usual + LITTLE) / (sum(work.recent_cpu_seconds for work in works) + LITTLE)
    surely = max(math.log(CHANGED), UNLIKELY * math.sqrt(SQUARES / requests))
    return pace if abs(math.log(pace)) > surely else 1.0


def _drawn_together(values: Sequence[float], doubts: Sequence[float]) -> list[float]:
    """Each of ``values`` drawn towards their mean as far as what they differ by may be chance (empirical Bayes).

    ``doubts`` are their variances in proportion to their squares; inf where a value is no observation. Members alike
    come out as alike, so that the order in which they take turns stays the same; members that differ by more than
    chance keep what was seen of them.
    """
    known = [(value, max(doubt, SURE)) for value, doubt in zip(values, doubts, strict=True) if doubt < math.inf]
    if not known:
        return list(values)
    real = _beyond_chance(known)
    mean = _mean(known, real)
    return [
        value if doubt == math.inf else mean + (value - mean) * real / (real + max(doubt, SURE))
        for value, doubt in zip(values, doubts, strict=True)
    ]


def _beyond_chance(known: Sequence[tuple[float, float]]) -> float:
    """What values differ by besides their doubts, as such a variance: the one with which their differences are as large
    as one expects (Paule and Mandel). Who is hardly known says hardly anything, and does not hide what others show.
    """

    def differences(real: float) -> float:
        mean = _mean(known, real)
        return sum((value / mean - 1) ** 2 / (doubt + real) for value, doubt in known)

    expected = len(known) - 1.0
    low, high = 0.0, float(len(known))  # the least that is too little, and what is never exceeded ...
    if differences(low) <= expected:
        return 0.0
    while differences(high) > expected:
        high *= 4
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if differences(middle) > expected else (low, middle)
    return high


def _mean(known: Sequence[tuple[float, float]], real: float) -> float:
    """The mean, in which values weigh less the more of their differences is chance."""
    weights = [1 / (doubt + real) for _, doubt in known]
    return sum(w * value for w, (value, _) in zip(weights, known, strict=True)) / sum(weights)


def measured(works: Sequence[Work]) -> bool:
    """Whether enough was seen of the pool to tell its capacity in requests/s."""
    return sum(work.requests for work in works) > ENOUGH and sum(work.cpu_seconds for work in works) > 0


def loads(metrics: Sequence[Mapping[str, float]], capacity: Sequence[float]) -> tuple[float, ...]:
    """Each member's load now: requests at work or waiting to be accepted, or runnable tasks if those are more.

    A member that tells neither is taken to be as full, for its capacity, as the others together.
    """
    known = [load_of(member) for member in metrics]
    full = sum(load for load in known if load is not None)
    room = sum(c for load, c in zip(known, capacity, strict=True) if load is not None)
    level = full / room if room > 0 else 0.0
    return tuple(level * c if load is None else load for load, c in zip(known, capacity, strict=True))


def believed(metrics: Mapping[str, float]) -> Mapping[str, float]:
    """``metrics`` without what no machine can tell: one broken agent must not spoil the sums of the whole pool."""
    if all(map(_is_believed, metrics.items())):
        return metrics
    return dict(filter(_is_believed, metrics.items()))


def _is_believed(metric: tuple[str, float]) -> bool:
    name, value = metric
    return LEAST_CORES <= value <= MOST_CORES if name == "cpu_count" else -MOST <= value <= MOST


def load_of(metrics: Mapping[str, float]) -> float | None:
    """Requests at work on one member or waiting to be accepted, None if it doesn't tell.

    A web server whose workers are all busy hides the rest of its load in the listen queue. Without busy workers the
    longer queue has to do; an accept queue alone, empty on every server that keeps up, tells nothing.
    """
    waiting, run_queue = metrics.get("listen_queue", 0.0), metrics.get("run_queue")
    if "busy_workers" in metrics:
        return max(0.0, metrics["busy_workers"] + max(0.0, waiting), run_queue or 0.0)
    return None if run_queue is None else max(0.0, run_queue, waiting)


def filled(values: Iterable[float | None]) -> list[float]:
    """``values`` with the mean of the others in the place of those that are not known; 1 if none is."""
    values = list(values)
    known = [value for value in values if value is not None and value > 0]
    mean = sum(known) / len(known) if known else 1.0
    return [value if value is not None and value > 0 else mean for value in values]
