"""The soak test: runs a server at half its maximum load for an hour while random faults occur."""

from __future__ import annotations

import datetime
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.faults.fault_farm import FarmPlan, FaultFarm
from lbdns_tools.faults.fault_runner import TRACEBACK
from lbdns_tools.faults.query_load import QueryLoad
from lbdns_tools.faults.query_records import TIMEOUT, QueryFigures, QueryRecord, figures
from lbdns_tools.faults.server_processes import ResourceSample, ResourceSampler
from lbdns_tools.faults.soak_events import ALWAYS, EVENTS, SoakEvent, schedule
from lbdns_tools.faults.waiting import wait_for

RATES: Final = (500.0, 1000.0, 2000.0, 4000.0, 8000.0)  # queries/s that are tried to find the maximum
TRIAL_S: Final = 3.0
TIMELY_MS: Final = 50.0  # p99 up to which a rate counts as answered
MOST: Final = 2000.0  # queries/s of the soak at most: the load process must keep up beside the server
SAMPLE_S: Final = 2.0
WARM_UP: Final = 0.2  # share of the soak in which tables and caches fill
GROWTH_MB: Final = 15.0  # by which memory may grow from the first to the last quarter after the warm-up
GROWTH_DESCRIPTORS: Final = 10
LOG_AFTER_S: Final = 30.0  # s after an event's end in which its log lines may come: some are held back for a while
SETTLE_S: Final = 6.0  # s after an event in which its consequences may still show
WELL_S: Final = 40.0  # s within which all members must be usable at the end
SHOWN: Final = 20  # unexplained lines or seconds that are shown


@dataclass(slots=True)
class EventWindow:
    """An event, the period in which lost queries are attributed to it, and the number of these queries."""

    event: SoakEvent
    begin: float
    end: float = 0.0
    lost: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class LogPeriod:
    """A period in Unix seconds during which log lines that match ``pattern`` are expected."""

    pattern: str
    begin: float
    end: float

    def explains(self, line: str, at: float) -> bool:
        return self.begin <= at <= self.end and re.search(self.pattern, line) is not None


@dataclass(slots=True)
class SoakOutcome:
    """The outcome of a soak test. ``problems`` is empty if all expectations held."""

    seconds: float
    rate: float
    maximum: float
    seed: int
    sent: int = 0
    lost: int = 0
    lost_after_retry: int = 0
    unexplained: int = 0
    wrong: int = 0
    lost_by_event: dict[str, int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    memory_mb: tuple[float, float, float] = (0.0, 0.0, 0.0)  # median of the first and last quarter; the most
    descriptors: tuple[float, float, int] = (0.0, 0.0, 0)
    log_lines: int = 0
    problems: list[str] = field(default_factory=list)


def find_maximum(port: int, plan: FarmPlan) -> float:
    """Return the highest rate in RATES (in queries/s) at which the server answers in time and loses no query."""
    best = RATES[0] / 2
    for rate in RATES:
        load = QueryLoad(port, rate, plan.queried, tuple(plan.hosts.values()))
        load.start()
        time.sleep(TRIAL_S)
        load.stop()
        found = figures(load.records)
        if found.lost or found.p99_ms > TIMELY_MS or found.sent < 0.9 * rate * TRIAL_S:
            break
        best = rate
    return best


def run_soak(seconds: float, seed: int, say: Callable[[str], object], logs: Path | None = None) -> SoakOutcome:
    """Run a soak test and return its outcome. The function ``say`` is called with a line of text for each event."""
    plan = FarmPlan(server="", collector="max_interval = 60\n")
    with tempfile.TemporaryDirectory(prefix="lbdns-soak-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        with FaultFarm(Path(name), plan) as farm:
            farm.start()
            maximum = find_maximum(farm.port, plan)
            rate = min(maximum / 2, MOST)
            say(
                f"the maximum is about {maximum:g} queries/s (each trial doubles the rate); "
                f"the soak test sends {rate:g} queries/s for {seconds:g} s"
            )
            outcome = SoakOutcome(seconds, rate, maximum, seed)
            soak = _Soak(farm, QueryLoad(farm.port, rate, plan.queried, tuple(plan.hosts.values())), outcome, say)
            soak.run(Random(seed))
            outcome.problems += log_problems(farm.log(), soak.log_periods())
            outcome.log_lines = farm.log().count("\n")
            if logs:
                (logs / "soak-server.log").write_text(farm.log())
    return outcome


def unexplained_losses(sent: Sequence[float], windows: Sequence[EventWindow]) -> str:
    """Describe the queries that were lost or answered wrongly outside all events: the number of queries and, for each
    of the first SHOWN queries, the time since the end of the event before it. ``sent`` contains the times at which the
    queries were sent (monotonic seconds).
    """
    places = []
    for at in sent[:SHOWN]:
        before = [window for window in windows if window.end <= at]
        places.append(f"{at - before[-1].end:.1f} s after {before[-1].event.name}" if before else "before all events")
    return f"{len(sent)} queries were lost or answered wrongly at times without an event: {', '.join(places)}"


class _Soak:
    def __init__(self, farm: FaultFarm, load: QueryLoad, outcome: SoakOutcome, say: Callable[[str], object]) -> None:
        self._farm, self._load, self._outcome, self._say = farm, load, outcome, say
        self._windows: list[EventWindow] = []
        self._bad: list[QueryRecord] = []  # lost or wrong

    def log_periods(self) -> list[LogPeriod]:
        """Return the periods during which log lines are expected because of the events of this soak."""
        offset = time.time() - time.monotonic()
        return [
            LogPeriod(window.event.explains, offset + window.begin - 1, offset + window.end + LOG_AFTER_S)
            for window in self._windows
        ]

    def run(self, chance: Random) -> None:
        with ResourceSampler(self._farm.processes, SAMPLE_S) as resources:
            self._load.start()
            try:
                self._go(chance, time.monotonic())
            finally:
                self._load.stop()
                self._take()
        self._judge(resources.samples)

    def _go(self, chance: Random, begin: float) -> None:
        for at, event in schedule(self._outcome.seconds, chance):
            self._keep(begin + at)
            window = EventWindow(event, time.monotonic())
            self._windows.append(window)
            self._say(f"{at:6.0f} s  {event.name}")
            try:
                event.do(self._farm, chance)
            except (LbdnsError, OSError) as error:
                window.error = str(error)
            window.end = time.monotonic() + SETTLE_S
            if not self._farm.server.running:
                raise LbdnsError(f"the server exited after the event {event.name}; {self._farm.server.last_line()}")
        self._keep(begin + self._outcome.seconds)
        if wait_for(lambda: self._farm.usable() == set(self._farm.plan.agents), WELL_S) is None:
            self._outcome.problems.append(f"at the end, the only usable members are {sorted(self._farm.usable())}")

    def _keep(self, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 5.0))
            self._take()

    def _take(self) -> None:
        """Count the newest records, and keep only the records of lost or wrongly answered queries."""
        records = self._load.take()
        found: QueryFigures = figures(records)
        outcome = self._outcome
        outcome.sent += found.sent
        outcome.lost += found.lost
        outcome.lost_after_retry += found.lost_after_retry
        outcome.wrong += found.wrong
        self._bad += [record for record in records if record.tries > 1 or record.is_wrong]

    def _judge(self, samples: Sequence[ResourceSample]) -> None:
        outcome, left = self._outcome, list[float]()
        for record in self._bad:
            if window := next((w for w in self._windows if w.begin - TIMEOUT <= record.sent < w.end), None):
                window.lost += 1
            else:
                left.append(record.sent)
        outcome.unexplained = len(left)
        outcome.events = dict(Counter(window.event.name for window in self._windows))
        outcome.lost_by_event = {event.name: 0 for event in EVENTS if event.name in outcome.events}
        for window in self._windows:
            outcome.lost_by_event[window.event.name] += window.lost
            outcome.problems += self._window_problems(window)
        if left:
            outcome.problems.append(unexplained_losses(left, self._windows))
        if outcome.wrong:
            outcome.problems.append(f"{outcome.wrong} wrong answers")
        self._judge_resources(samples)

    def _window_problems(self, window: EventWindow) -> list[str]:
        limit = round(window.event.lost_s * self._outcome.rate)
        problems = [f"{window.event.name}: {window.error}"] if window.error else []
        if window.lost > limit:
            problems.append(
                f"{window.event.name}: {window.lost} queries were lost; the limit for this event is {limit}"
            )
        return problems

    def _judge_resources(self, samples: Sequence[ResourceSample]) -> None:
        outcome = self._outcome
        calm = [sample for sample in samples if not any(w.begin <= sample.at < w.end for w in self._windows)]
        memory = quarters([(sample.at, sample.memory / 1e6) for sample in calm])
        descriptors = quarters([(sample.at, float(sample.descriptors)) for sample in calm])
        outcome.memory_mb = (*memory, round(max(sample.memory for sample in samples) / 1e6, 1))
        outcome.descriptors = (*descriptors, max(sample.descriptors for sample in samples))
        if memory[1] - memory[0] > GROWTH_MB:
            outcome.problems.append(f"memory grew by {memory[1] - memory[0]:g} MB; the limit is {GROWTH_MB:g} MB")
        if descriptors[1] - descriptors[0] > GROWTH_DESCRIPTORS:
            outcome.problems.append(
                f"the number of open descriptors grew by {descriptors[1] - descriptors[0]:g}; "
                f"the limit is {GROWTH_DESCRIPTORS}"
            )


def quarters(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the median values in the first and last quarter of the time after the warm-up.

    Each sample is a pair (time, value).
    """
    if not samples:
        return 0.0, 0.0
    first, last = samples[0][0], samples[-1][0]
    begin = first + WARM_UP * (last - first)
    quarter = (last - begin) / 4
    early = [value for at, value in samples if begin <= at <= begin + quarter] or [samples[0][1]]
    late = [value for at, value in samples if at >= last - quarter]
    return round(statistics.median(early), 1), round(statistics.median(late), 1)


def log_problems(log: str, periods: Sequence[LogPeriod]) -> list[str]:
    """Return the problems in a log: tracebacks, and lines that neither an event nor normal operation explains."""
    strange = [line for line in log.splitlines() if not _is_explained(line, periods)]
    problems = [f"unexplained log line: {line}" for line in strange[:SHOWN]]
    if len(strange) > SHOWN:
        problems.append(f"the log contains {len(strange) - SHOWN} more unexplained lines")
    if TRACEBACK.search(log):
        problems.append("the log contains a traceback")
    return problems


def _is_explained(line: str, periods: Sequence[LogPeriod]) -> bool:
    if re.search(ALWAYS, line):
        return True
    try:
        at = datetime.datetime.fromisoformat(line.split(maxsplit=1)[0]).timestamp()
    except (ValueError, IndexError):
        return False  # lines without a time belong to tracebacks
    return any(period.explains(line, at) for period in periods)
