"""Report figures: what the collector computes from a report's metrics, in Python or with the native extension.

The figures are the host's estimated capacity, the derived metrics, and the scores. Both implementations return the same
numbers. Sans-I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from lbdns.answering.plane import AVAILABLE
from lbdns.choosing.host_capacity import HostCapacity
from lbdns.scores.derived_metrics import add_derived_metrics
from lbdns.scores.score import Score

if AVAILABLE:
    import lbdns_native


class CapacityEstimate(Protocol):
    """Estimates the capacity of one host from its reports."""

    def derive(self, metrics: dict[str, float], interval: float, now: float) -> None:
        """Record the metrics of a report, and set the derived metrics in ``metrics``.

        ``interval`` is the declared interval in seconds, and ``now`` the time of receipt in monotonic seconds.
        """


class PythonEstimate:
    """The capacity estimate in Python."""

    __slots__ = ("_capacity",)

    def __init__(self) -> None:
        self._capacity = HostCapacity()

    def derive(self, metrics: dict[str, float], interval: float, now: float) -> None:
        add_derived_metrics(metrics, self._capacity.observe(metrics, interval, now), interval)


class ReportFigures(Protocol):
    """Computes figures with one score, and with a second one for comparison."""

    score: Score
    shadow: Score | None

    def using(self, score: Score, shadow: Score | None) -> ReportFigures:
        """Return the same implementation with other scores."""

    def estimate(self) -> CapacityEstimate:
        """Return the capacity estimate of a host that has not reported yet."""

    def scores(self, metrics: Mapping[str, float]) -> tuple[int, int | None]:
        """Return the score of ``metrics``, and the second score, or None if there is none."""


class PythonFigures:
    """The figures in Python."""

    def __init__(self, score: Score, shadow: Score | None) -> None:
        self.score, self.shadow = score, shadow

    def using(self, score: Score, shadow: Score | None) -> ReportFigures:
        return type(self)(score, shadow)

    def estimate(self) -> CapacityEstimate:
        return PythonEstimate()

    def scores(self, metrics: Mapping[str, float]) -> tuple[int, int | None]:
        return self.score.of(metrics), self.shadow.of(metrics) if self.shadow else None


class NativeFigures(PythonFigures):
    """The native figures. Construct them only if the native extension is available."""

    def __init__(self, score: Score, shadow: Score | None) -> None:
        super().__init__(score, shadow)
        self.native_score = lbdns_native.ReportScore(score.lines, score.total)
        self.native_shadow = lbdns_native.ReportScore(shadow.lines, shadow.total) if shadow else None

    def estimate(self) -> CapacityEstimate:
        return lbdns_native.HostCapacity()

    def scores(self, metrics: Mapping[str, float]) -> tuple[int, int | None]:
        if not isinstance(metrics, dict):
            return super().scores(metrics)
        return self.native_score.of(metrics), self.native_shadow.of(metrics) if self.native_shadow else None
