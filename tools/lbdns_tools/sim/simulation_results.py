"""Results of simulation runs, and their averages over several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

#: The fields of a result that are averaged over the seeds, in addition to the shares
FIGURES: Final = ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "throughput_per_s", "failed", "requests")

#: The fields of a site's results that are averaged over the seeds
SITE_FIGURES: Final = ("requests", "local", "failed", "mean_ms", "p95_ms", "swings")

#: The fields of the use of a backup that are averaged over the seeds
BACKUP_FIGURES: Final = ("requests", "seconds", "swings")


@dataclass(frozen=True, slots=True)
class FarmMoment:
    """One second of a run, ending at ``time``. ``answers`` and ``load`` contain one number per server."""

    time: float
    answers: tuple[int, ...]
    load: tuple[int, ...]  # requests that are being processed or waiting
    responses: int
    response_s: float  # the sum of the response times
    kept: tuple[float, ...] = ()  # by site: the share of its clients that are decided to stay in it; or in the pool


@dataclass(frozen=True, slots=True)
class SiteFigures:
    """The results of the clients near one site. Times are in milliseconds, and include the network delay."""

    site: str
    requests: float
    local: float  # share of the requests that servers of this site got
    failed: float
    mean_ms: float
    p95_ms: float
    swings: float  # how often the share of the clients that stay in the site has turned


@dataclass(frozen=True, slots=True)
class BackupFigures:
    """How much a pool uses its backup."""

    requests: float  # share of the requests that the backup's servers got
    seconds: float  # during which answers named the backup's servers
    swings: float  # how often the share of the answers that name the pool's own servers has turned


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """The results of a policy after the warm-up. Times are in milliseconds. The response time of a failed request
    counts as 10 s."""

    policy: str
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    throughput_per_s: float  # responses within the deadline
    failed: float
    requests: float
    shares: Mapping[str, float]  # of the requests, by server
    sites: tuple[SiteFigures, ...] = ()  # empty if the farm has no sites
    backup: BackupFigures | None = None  # None if the pool has no backup


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult(RunFigures):
    """The result of one simulation run."""

    failed: int
    requests: int
    answers: int  # from all DNS servers
    few: int  # answers in light traffic (Scenario.check_few)
    highest: int  # answers in light traffic that named a member with the highest score
    reports: int  # from all agents
    late_answers: int  # answers that named a server that had been dead for more than stale_after intervals
    moments: tuple[FarmMoment, ...] = field(default=(), repr=False)

    @property
    def few_others(self) -> int:
        """The number of answers in light traffic that named a member whose score was not the highest."""
        return self.few - self.highest


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedAverage(RunFigures):
    """The average of several simulation runs with different seeds."""

    seeds: int


def average_runs(results: Sequence[SimulationResult]) -> SeedAverage:
    """Return the average of ``results``, which must be one or more runs with the same policy."""

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    return SeedAverage(
        policy=results[0].policy,
        seeds=len(results),
        shares={name: mean([r.shares[name] for r in results]) for name in results[0].shares},
        sites=tuple(
            SiteFigures(runs[0].site, **{name: mean([getattr(run, name) for run in runs]) for name in SITE_FIGURES})
            for runs in zip(*(r.sites for r in results), strict=True)
        ),
        backup=BackupFigures(**{name: mean([getattr(use, name) for use in used]) for name in BACKUP_FIGURES})
        if (used := [r.backup for r in results if r.backup])
        else None,
        **{name: mean([getattr(r, name) for r in results]) for name in FIGURES},
    )
