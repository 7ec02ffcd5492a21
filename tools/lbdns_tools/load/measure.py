"""One run measured: a plan -> the crew that drives it -> a row of figures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from lbdns_tools.load import crew
from lbdns_tools.load.crew import LoadPlace
from lbdns_tools.load.figures import figures
from lbdns_tools.load.output import Row
from lbdns_tools.load.plan import Closed, Run
from lbdns_tools.load.progress import Progress
from lbdns_tools.load.study import Planned


class InterruptedRunError(Exception):
    """Ctrl-C ended a run; ``row`` is what had been measured by then."""

    def __init__(self, row: Row) -> None:
        super().__init__("interrupted")
        self.row = row


@dataclass(frozen=True, slots=True)
class Measuring:
    """How runs are driven: by so many processes, 0 for one a processor, from these places in turn.

    There is one process a place at least: each is there to be used.
    """

    processes: int = 0
    places: tuple[LoadPlace, ...] = ()
    on_progress: Callable[[Progress], None] = lambda progress: None

    def measure(self, planned: Planned, repetition: int = 1) -> Row:
        """Raises LbdnsError, and InterruptedRunError."""
        run = planned.again(repetition)
        begun = time.time()

        def on_progress(progress: Progress) -> None:
            nonlocal begun
            if progress.elapsed_s > 0:  # from its beginning, which is when all processes were ready
                begun = time.time() - progress.elapsed_s
            self.on_progress(progress)

        processes = self.processes or max(useful_processes(run), len(self.places))
        result = crew.run(run, processes, on_progress, self.places)
        found = figures(result.tally, result.seconds, result.saturation)
        row = Row(planned.point, repetition, found, result.tally, begun)
        if result.interrupted:
            raise InterruptedRunError(row)
        return row


def useful_processes(run: Run) -> int:
    """One a processor; not more than there are clients, if there is nothing else."""
    processors = len(os.sched_getaffinity(0))
    clients = [phase.load.clients for phase in run.phases if isinstance(phase.load, Closed)]
    return min(processors, max(1, sum(clients))) if len(clients) == len(run.phases) else processors
