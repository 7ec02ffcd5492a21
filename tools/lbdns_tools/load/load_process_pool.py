"""Starts and synchronizes a pool of load processes, and collects their results."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import IO, Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.load.load_plan import ClosedLoop, LoadRun, split_run
from lbdns_tools.load.load_study import PlannedRun
from lbdns_tools.load.process_measurements import ProcessMeasurement, RunResult, combine
from lbdns_tools.load.result_rows import ResultRow
from lbdns_tools.load.run_statistics import run_statistics

READY_S: Final = 60.0  # until all processes are ready; each starts an interpreter, maybe on a busy machine
SILENCE_S: Final = 60.0  # without a message from a process, which sends four per second
STOP_S: Final = 5.0  # that a process may take to send its result after a stop message
_AHEAD_S: Final = 0.02  # between the message to begin and the start of the run, so that all processes receive it
_AHEAD_EACH_S: Final = 0.002  # added for each process


@dataclass(frozen=True, slots=True)
class LoadPlace:
    """The place where a load process runs. The process connects from the local addresses ``sources`` in turn.

    ``before`` is a prefix for the process's command, for example to enter a network namespace. The prefix must replace
    itself with the command (exec) instead of starting a child process.
    """

    before: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The combined progress of all processes, including warm-up. ``share`` is the completed fraction, from 0 to 1."""

    label: str
    share: float
    elapsed_s: float
    requests: int
    failed: int
    under_way: int

    def __str__(self) -> str:
        rate = self.requests / self.elapsed_s if self.elapsed_s > 0 else 0.0
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.requests} requests, {rate:.0f}/s, {self.under_way} in progress{failed}"


def share_done(run: LoadRun, elapsed_s: float, requests: int) -> float:
    """Return the completed fraction of a run, from 0 to 1, based on time or requests, whichever is larger."""
    shares = [elapsed_s / run.seconds] if run.seconds and math.isfinite(run.seconds) else []
    loads = [phase.load for phase in run.phases]
    if loads and all(isinstance(load, ClosedLoop) and load.requests for load in loads):
        shares.append(requests / sum(load.requests for load in loads))
    return max(0.0, min(1.0, max(shares, default=0.0)))


class _PoolMember:
    """One load process, with the latest progress and the measurement that it has sent."""

    def __init__(self, number: int, run: LoadRun, place: LoadPlace, errors: IO[bytes]) -> None:
        self.number = number
        self._errors = errors
        command = [*place.before, sys.executable, "-m", "lbdns_tools.load.load_process"]
        self.connection, child = Pipe()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=child.fileno(),
                stdout=errors,
                stderr=errors,
                start_new_session=True,  # Ctrl-C reaches the parent alone, which then collects the results
            )
        except OSError as error:
            self.connection.close()
            raise LbdnsError(f"load process {self.number} cannot be started: {command[0]}: {error.strerror}") from None
        finally:
            child.close()
        self.is_ready = False
        self.progress = (0, 0, 0)
        self.measured: ProcessMeasurement | None = None
        self.last_message = 0.0
        self.send((run, place.sources))

    def send(self, message: object) -> None:
        self.last_message = time.monotonic()
        with contextlib.suppress(ConnectionError):  # the process has ended; receive() then raises the error
            self.connection.send(message)

    def receive(self) -> None:
        """Read the next message from the process. Raises LbdnsError if the process reports an error or has exited."""
        self.last_message = time.monotonic()
        try:
            what, content = self.connection.recv()
        except (EOFError, OSError):
            status = self._process.wait(STOP_S)
            how = f"signal {-status}" if status < 0 else f"exit status {status}"
            self._errors.seek(0)
            output = self._errors.read().decode("utf-8", "replace").strip()
            why = f": {output.splitlines()[-1]}" if output else ""
            raise LbdnsError(f"load process {self.number} exited unexpectedly with {how}{why}") from None
        match what:
            case "ready":
                self.is_ready = True
            case "progress":
                self.progress = content
            case "done":
                self.measured = content
            case "error":
                raise LbdnsError(content)

    def end(self) -> None:
        """Kill the process if it is still running."""
        self.connection.close()
        self._process.kill()
        self._process.wait()


class InterruptedRunError(Exception):
    """The exception raised if Ctrl-C ends a run. ``row`` is the result up to the interruption."""

    def __init__(self, row: ResultRow) -> None:
        super().__init__("interrupted")
        self.row = row


@dataclass(frozen=True, slots=True)
class RunMeasurement:
    """Measures runs with ``processes`` load processes, which are assigned to ``places`` in turn.

    If ``processes`` is 0, :func:`_useful_processes` determines the number of processes, but each place has at least one
    process.
    """

    processes: int = 0
    places: tuple[LoadPlace, ...] = ()
    on_progress: Callable[[LoadProgress], None] = lambda progress: None

    def measure(self, planned: PlannedRun, repetition: int = 1) -> ResultRow:
        """Run ``planned`` and return its result row. Raises LbdnsError on failure and InterruptedRunError on Ctrl-C."""
        load = planned.again(repetition)
        processes = self.processes or max(_useful_processes(load), len(self.places))
        result = run(load, processes, self.on_progress, self.places)
        found = run_statistics(result.tally, result.seconds, result.saturation, result.names)
        row = ResultRow(planned.point, repetition, found, result.tally, result.begun)
        if result.interrupted:
            raise InterruptedRunError(row)
        return row


def _useful_processes(run: LoadRun) -> int:
    """Return the number of processors, or the number of clients if all phases are closed loops with fewer clients."""
    processors = len(os.sched_getaffinity(0))
    clients = [phase.load.clients for phase in run.phases if isinstance(phase.load, ClosedLoop)]
    return min(processors, max(1, sum(clients))) if len(clients) == len(run.phases) else processors


def run(
    run: LoadRun,
    processes: int,
    on_progress: Callable[[LoadProgress], None] = lambda progress: None,
    places: Sequence[LoadPlace] = (),
) -> RunResult:
    """Execute ``run`` in ``processes`` processes and return the result.

    On Ctrl-C, the run ends early, and the function returns the partial result. Processes are assigned to ``places`` in
    turn. If ``places`` is empty, the processes run without a prefix, and the kernel selects the source addresses.
    Raises LbdnsError.
    """
    if processes < 1:
        raise LbdnsError(f"the number of processes must be at least 1, not {processes}")
    parts = split_run(run, processes)
    with _started([(part, places[part.part % len(places)] if places else LoadPlace()) for part in parts]) as pool:
        return combine(run, *_measure(run, pool, on_progress))


def run_together(runs: Sequence[tuple[LoadRun, LoadPlace]]) -> tuple[RunResult, list[RunResult]]:
    """Execute several runs at the same time, each in one process at its place. All runs must last equally long.

    Return the combined result of all runs, and the result of each. On Ctrl-C, the runs end early, and the results are
    partial. Raises LbdnsError.
    """
    first = runs[0][0]
    with _started(runs) as pool:
        found, begun, stopped_at = _measure(first, pool, lambda progress: None)
        each = [
            combine(run, [member.measured] if member.measured else [], begun, stopped_at)
            for (run, _), member in zip(runs, pool, strict=True)
        ]
    return combine(first, found, begun, stopped_at), each


@contextlib.contextmanager
def _started(runs: Sequence[tuple[LoadRun, LoadPlace]]) -> Iterator[list[_PoolMember]]:
    """Start a process for each run, and yield the processes once all are ready. Raises LbdnsError."""
    with ExitStack() as stack:
        pool: list[_PoolMember] = []
        for number, (each, place) in enumerate(runs, 1):
            errors = stack.enter_context(tempfile.TemporaryFile())
            pool.append(_PoolMember(number, each, place, errors))
            stack.callback(pool[-1].end)
        for _ in _receive(
            pool, lambda member: member.is_ready, READY_S, f"the load processes were not ready within {READY_S:g} s"
        ):
            pass
        yield pool


def _measure(
    run: LoadRun, pool: Sequence[_PoolMember], on_progress: Callable[[LoadProgress], None]
) -> tuple[list[ProcessMeasurement], float, float]:
    """Start all processes simultaneously. Return their measurements, the Unix time at which the run began, and the time
    (s) after which Ctrl-C stopped it, or infinity. Raises LbdnsError."""
    ahead_s = _AHEAD_S + _AHEAD_EACH_S * len(pool)
    begin, begun = time.monotonic() + ahead_s, time.time() + ahead_s
    stopped_at = math.inf

    def report() -> None:
        requests, failed, under_way = (sum(counts) for counts in zip(*(each.progress for each in pool), strict=True))
        elapsed_s = max(0.0, time.monotonic() - begin)
        share = share_done(run, elapsed_s, requests)
        on_progress(LoadProgress(run.label, share, elapsed_s, requests, failed, under_way))

    for member in pool:
        member.send(begin)
    try:
        for _ in _receive(pool, lambda member: member.measured is not None):
            report()
    except KeyboardInterrupt:
        stopped_at = max(0.0, time.monotonic() - begin)
        for member in pool:
            member.send("stop")
        late = f"a load process did not stop within {STOP_S:g} s, so its results are lost"
        for _ in _receive(pool, lambda member: member.measured is not None, STOP_S, late):
            pass
    report()
    return [member.measured for member in pool if member.measured], begun, stopped_at


def _receive(
    pool: Sequence[_PoolMember], is_done: Callable[[_PoolMember], bool], limit_s: float = math.inf, late: str = ""
) -> Iterator[None]:
    """Read messages until all processes are done, yielding at least once per second.

    Raises LbdnsError if a process fails. If the processes take longer than ``limit_s`` seconds, raises LbdnsError with
    the message ``late``.
    """
    end = time.monotonic() + limit_s
    while waiting := [member for member in pool if not is_done(member)]:
        readable = set(wait([member.connection for member in waiting], 1.0))
        for member in waiting:
            if member.connection in readable:
                member.receive()
            elif time.monotonic() > member.last_message + SILENCE_S:
                raise LbdnsError(f"load process {member.number} has sent no message for {SILENCE_S:g} s")
        if time.monotonic() > end:
            raise LbdnsError(late)
        yield
