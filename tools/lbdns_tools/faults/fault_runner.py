"""Runs one fault against a fresh farm under the measuring load, and checks the outcome against the fault's limits."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.faults import requirements
from lbdns_tools.faults.fault import RATE, Fault, FaultOutcome, Limits
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import FaultFarm
from lbdns_tools.faults.query_load import QueryLoad
from lbdns_tools.faults.query_records import QueryFigures, figures
from lbdns_tools.faults.server_processes import ResourceSample, ResourceSampler
from lbdns_tools.faults.waiting import wait_for

CALM_S: Final = 1.0  # s of load before the fault: it must be answered completely
AFTER_S: Final = 1.5  # s of load after the recovery
STEADY_S: Final = 30.0  # s within which the farm must answer a whole second of load
TRACEBACK: Final = re.compile(r"^Traceback|^\s+File \"", re.MULTILINE)
SHOWN: Final = 300  # characters of an error that a problem shows


def run_fault(fault: Fault, seed: int, quick: bool, kept: Path | None = None) -> FaultOutcome:
    """Run a fault and return its outcome.

    Errors in the harness also count as problems. Log files are copied to ``kept``.
    """
    outcome = FaultOutcome(fault.name, fault.done, fault.holds)
    began = time.monotonic()
    if lacking := requirements.missing(fault.needs):
        outcome.verdict = "FAILED" if requirements.nothing_may_be_skipped() else "skipped"
        outcome.problems = [lacking]
        return outcome
    with tempfile.TemporaryDirectory(prefix="lbdns-faults-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            _run(fault, folder, Random(f"{seed} {fault.name}"), quick, outcome)
        except (LbdnsError, OSError) as error:
            outcome.problems.append(f"the run ended early: {str(error)[:SHOWN]}")
        if kept:
            for log in (folder / "logs").glob("*.log"):
                (kept / f"{fault.name}-{log.name}").write_bytes(log.read_bytes())
    outcome.verdict = "FAILED" if outcome.problems else "held"
    outcome.seconds = round(time.monotonic() - began, 1)
    return outcome


def _run(fault: Fault, folder: Path, chance: Random, quick: bool, outcome: FaultOutcome) -> None:
    with FaultFarm(folder, fault.farm) as farm:
        farm.start()
        load = QueryLoad(farm.port, RATE, fault.farm.queried, tuple(fault.farm.hosts.values()))
        bed = FaultBed(farm, load, chance, quick)
        with ResourceSampler(farm.processes) as resources:
            load.start()
            try:
                if wait_for(bed.answers, STEADY_S) is None:
                    raise LbdnsError("the farm does not answer all queries, although no fault has been injected yet")
                before = resources.sample()
                fault.run(bed)
                time.sleep(AFTER_S)
                after = resources.sample()
            finally:
                outcome.problems += bed.problems
                outcome.notes |= bed.notes
                load.stop()
                bed.resources.close()
        _judge(outcome, bed, fault.limits, resources.samples, (before, after))
        outcome.log_lines = farm.log().count("\n")
        outcome.problems += log_problems(farm.log(), fault.limits)


def _judge(
    outcome: FaultOutcome,
    bed: FaultBed,
    limits: Limits,
    samples: Sequence[ResourceSample],
    ends: tuple[ResourceSample, ResourceSample],
) -> None:
    before, after = ends
    found = figures(bed.load.between(bed.began), bed.bans)
    outcome.sent, outcome.lost, outcome.lost_after_retry = found.sent, found.lost, found.lost_after_retry
    outcome.wrong, outcome.p99_ms = found.wrong, found.p99_ms
    outcome.recover_s = recovery(bed, found)
    most = max(sample.memory for sample in samples if sample.at >= before.at)
    outcome.memory_mb = (megabytes(before.memory), megabytes(most), megabytes(after.memory))
    outcome.problems += limit_problems(outcome, limits)


def recovery(bed: FaultBed, found: QueryFigures) -> float | None:
    """Return the seconds from the removal of the fault to the recovery.

    If the fault ends by itself, the time is counted from the injection of the fault.
    """
    since = bed.eased or bed.began
    ends = [bed.recovered_at or 0.0, found.last_bad]
    if bed.recovered_at is None and found.last_bad <= since:
        return None
    return round(max(0.0, max(ends) - since), 2)


def limit_problems(outcome: FaultOutcome, limits: Limits) -> list[str]:
    """Return one message for each limit that the outcome exceeds."""
    problems = []
    for name, value, limit in (
        ("queries lost", outcome.lost, limits.lost),
        ("queries lost after one retry", outcome.lost_after_retry, limits.lost_after_retry),
        ("wrong answers", outcome.wrong, limits.wrong),
    ):
        if value > limit:
            problems.append(f"{value} {name}; the limit is {limit}")
    if outcome.recover_s is not None and outcome.recover_s > limits.recover_s:
        problems.append(f"the recovery took {outcome.recover_s:g} s; the limit is {limits.recover_s:g} s")
    before, _, after = outcome.memory_mb
    if after - before > limits.growth_mb:
        problems.append(f"memory grew by {after - before:.0f} MB; the limit is {limits.growth_mb:g} MB")
    return problems


def log_problems(log: str, limits: Limits) -> list[str]:
    """Return the problems in a server's log: tracebacks, and too many lines."""
    problems = []
    if limits.has_clean_log and TRACEBACK.search(log):
        problems.append(f"the log contains a traceback that ends with: {_end_of_traceback(log)}")
    if (lines := log.count("\n")) > limits.log_lines:
        problems.append(f"the server logged {lines} lines; the limit is {limits.log_lines}")
    return problems


def _end_of_traceback(log: str) -> str:
    lines = log[TRACEBACK.search(log).start() :].splitlines()  # type: ignore[union-attr]
    return next((line for line in lines if line[:1].strip() and not line.startswith("Traceback")), lines[-1])[:SHOWN]


def megabytes(size: int) -> float:
    return round(size / 1e6, 1)
