"""Measure one planned run: start the load processes and return a result row."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from lbdns_tools.load import load_process_pool
from lbdns_tools.load.load_plan import ClosedLoop, LoadRun
from lbdns_tools.load.load_process_pool import LoadPlace, LoadProgress
from lbdns_tools.load.load_study import PlannedRun
from lbdns_tools.load.result_rows import ResultRow
from lbdns_tools.load.run_statistics import run_statistics


class InterruptedRunError(Exception):
    """Ctrl-C ended a run; ``row`` is the result up to then."""

    def __init__(self, row: ResultRow) -> None:
        super().__init__("interrupted")
        self.row = row


@dataclass(frozen=True, slots=True)
class RunMeasurement:
    """How to measure runs: the number of processes (0: one per processor), and the places where they run, in turn.

    Each place runs at least one process.
    """

    processes: int = 0
    places: tuple[LoadPlace, ...] = ()
    on_progress: Callable[[LoadProgress], None] = lambda progress: None

    def measure(self, planned: PlannedRun, repetition: int = 1) -> ResultRow:
        """Run ``planned`` and return its result row. Raises LbdnsError, and InterruptedRunError on Ctrl-C."""
        run = planned.again(repetition)
        begun = time.time()

        def on_progress(progress: LoadProgress) -> None:
            nonlocal begun
            if progress.elapsed_s > 0:  # the run began when all processes were ready
                begun = time.time() - progress.elapsed_s
            self.on_progress(progress)

        processes = self.processes or max(useful_processes(run), len(self.places))
        result = load_process_pool.run(run, processes, on_progress, self.places)
        found = run_statistics(result.tally, result.seconds, result.saturation)
        row = ResultRow(planned.point, repetition, found, result.tally, begun)
        if result.interrupted:
            raise InterruptedRunError(row)
        return row


def useful_processes(run: LoadRun) -> int:
    """Return one process per processor, but no more than there are clients if all phases are closed loops."""
    processors = len(os.sched_getaffinity(0))
    clients = [phase.load.clients for phase in run.phases if isinstance(phase.load, ClosedLoop)]
    return min(processors, max(1, sum(clients))) if len(clients) == len(run.phases) else processors
