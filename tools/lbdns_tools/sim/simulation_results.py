"""Results of simulation runs, and their averages over several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class FarmMoment:
    """One second of a run. ``answers`` and ``load`` are by server; counts and sums are since the second before."""

    time: float
    answers: tuple[int, ...]
    load: tuple[int, ...]  # requests in process or waiting
    responses: int
    response_s: float  # the sum of them


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The result of one run, measured after the warm-up. Times in milliseconds; a failure counts as 10 s."""

    policy: str
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    throughput_per_s: float  # responses in time
    failed: int
    requests: int
    shares: Mapping[str, float]  # of the requests, by server
    answers: int  # given by the DNS servers
    few: int  # of these, how many came while there were few (Scenario.check_few)
    highest: int  # of the few, how many named a member with the highest score
    reports: int  # sent by all agents, in all
    late_answers: int  # that named a server dead for longer than stale_after intervals
    moments: tuple[FarmMoment, ...] = field(default=(), repr=False)

    @property
    def few_others(self) -> int:
        """Answers that named another than a member with the highest score although there were few."""
        return self.few - self.highest


@dataclass(frozen=True, slots=True)
class SeedAverage:
    """The average of several runs that differ in their seed."""

    policy: str
    seeds: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    throughput_per_s: float
    failed: float
    requests: float
    shares: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "seeds": self.seeds,
            "mean_ms": self.mean_ms,
            "p50_ms": self.p50_ms,
            "p95_ms": self.p95_ms,
            "p99_ms": self.p99_ms,
            "throughput_per_s": self.throughput_per_s,
            "failed": self.failed,
            "requests": self.requests,
            "shares": dict(self.shares),
        }


def average_runs(results: Sequence[SimulationResult]) -> SeedAverage:
    """The average of ``results``, all of one policy. Raises ValueError if there is none."""
    if not results:
        raise ValueError("a cell is the average of one run at least")

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    return SeedAverage(
        policy=results[0].policy,
        seeds=len(results),
        mean_ms=mean([r.mean_ms for r in results]),
        p50_ms=mean([r.p50_ms for r in results]),
        p95_ms=mean([r.p95_ms for r in results]),
        p99_ms=mean([r.p99_ms for r in results]),
        throughput_per_s=mean([r.throughput_per_s for r in results]),
        failed=mean([r.failed for r in results]),
        requests=mean([r.requests for r in results]),
        shares={name: mean([r.shares[name] for r in results]) for name in results[0].shares},
    )
