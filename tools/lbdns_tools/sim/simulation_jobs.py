"""Runs simulations or other jobs in parallel processes, and reports the completion of each job."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TypeVar

from lbdns_tools.sim.event_engine import simulate
from lbdns_tools.sim.simulation_results import SimulationResult
from lbdns_tools.sim.simulation_scenario import Scenario

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SimulationJob:
    """One simulation run, defined by a scenario, a policy and a seed."""

    scenario: Scenario
    policy: str
    seed: int

    def __str__(self) -> str:
        return f"{self.policy}, seed {self.seed}"

    def run(self) -> SimulationResult:
        return simulate(self.scenario, self.policy, self.seed)


def usable_processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def in_processes(
    do: Callable[[T], R], items: Sequence[T], processes: int, on_done: Callable[[T], None] = lambda item: None
) -> list[R]:
    """Call ``do`` for each of ``items`` in parallel processes, and return the results in the same order.

    In the parent process, ``on_done`` is called with each completed item.
    """
    if processes <= 1 or len(items) <= 1:
        results = []
        for item in items:
            results.append(do(item))
            on_done(item)
        return results
    # Forked processes would inherit locks of the caller's threads; spawning costs about a second in total
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
