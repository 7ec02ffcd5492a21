"""Run many simulations in parallel processes, and report each completed one."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TypeVar

from lbdns_tools.sim.event_engine import simulate
from lbdns_tools.sim.simulation_results import SeedAverage, SimulationResult, average_runs
from lbdns_tools.sim.simulation_scenario import Scenario

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SimulationJob:
    """One run: a scenario, a policy and a seed."""

    scenario: Scenario
    policy: str
    seed: int

    def __str__(self) -> str:
        return f"{self.policy}, seed {self.seed}"


def usable_processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def run_job(job: SimulationJob) -> SimulationResult:
    return simulate(job.scenario, job.policy, job.seed)


def run_jobs(
    jobs: Sequence[SimulationJob], processes: int, on_done: Callable[[SimulationJob], None] = lambda job: None
) -> list[SimulationResult]:
    """The results of ``jobs``, in their order. ``on_done`` is called in this process after each."""
    return in_processes(run_job, jobs, processes, on_done)


def in_processes(
    do: Callable[[T], R], items: Sequence[T], processes: int, on_done: Callable[[T], None] = lambda item: None
) -> list[R]:
    """What ``do`` returns for each of ``items``, in their order. ``on_done`` is called in this process after each."""
    if processes <= 1 or len(items) <= 1:
        results = []
        for item in items:
            results.append(do(item))
            on_done(item)
        return results
    # Forked processes would inherit locks of the caller's threads; spawning costs about a second in all
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(items)), mp_context=context) as pool:
        futures = {pool.submit(do, item): item for item in items}
        try:
            for future in as_completed(futures):
                future.result()
                on_done(futures[future])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in futures]


def run_cells(
    cases: Sequence[tuple[Scenario, str]],
    seeds: int,
    processes: int,
    on_done: Callable[[SimulationJob], None] = lambda job: None,
) -> list[SeedAverage]:
    """Each scenario under its policy, averaged over the seeds 1 to ``seeds``; in the order of ``cases``."""
    jobs = [SimulationJob(scenario, policy, seed) for scenario, policy in cases for seed in range(1, seeds + 1)]
    results = run_jobs(jobs, processes, on_done)
    return [average_runs(results[i * seeds : (i + 1) * seeds]) for i in range(len(cases))]
