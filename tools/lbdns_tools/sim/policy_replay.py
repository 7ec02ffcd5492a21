"""Replays a recording to calculate how policies would have answered the recorded queries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from lbdns_tools.sim.recording_format import RecordedAnswers, RecordedReport, Recording
from lbdns_tools.sim.simulated_dns_servers import PoolSettings, SimulatedDnsServer

MAX_STEPS: Final = 240  # steps of a timeline; a picture cannot show more
MIN_STEP: Final = 1.0  # s; the answers in a recording are counted once a second


@dataclass(frozen=True, slots=True)
class QuerySpan:
    """A period from ``begin`` to ``end`` (in seconds) with ``count`` queries, and the recorded number of answers per
    member."""

    begin: float
    end: float
    count: int
    answered: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ReplayedPolicy:
    """How many answers would have named each member under one policy, in total and in steps of ``step`` seconds."""

    policy: str
    members: tuple[str, ...]
    totals: tuple[int, ...]
    step: float
    timeline: tuple[tuple[int, ...], ...]
    diverted: float | None  # share of the answers that went to other members than recorded; None if unknown

    @property
    def shares(self) -> dict[str, float]:
        answers = sum(self.totals)
        return {name: count / max(1, answers) for name, count in zip(self.members, self.totals, strict=True)}

    def as_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "answers": sum(self.totals),
            "shares": self.shares,
            "diverted": self.diverted,
            "moment_s": self.step,
            "timeline": {name: [moment[i] for moment in self.timeline] for i, name in enumerate(self.members)},
        }


def spans(recording: Recording) -> list[QuerySpan]:
    """Return the periods in which queries arrived.

    The periods are based on the recorded answers or, if there are none, on the recorded requests.
    """
    if any(recording.answered):
        found, before = [], 0.0
        for event in recording.events:
            if isinstance(event, RecordedAnswers):
                found.append(QuerySpan(before, event.time, sum(event.counts), event.counts))
                before = event.time
        return [span for span in found if span.count]
    return sorted(_requests(recording), key=lambda span: span.end)


def _requests(recording: Recording) -> Iterator[QuerySpan]:
    last: dict[str, RecordedReport] = {}
    for event in recording.events:
        if isinstance(event, RecordedReport):
            before, last[event.member] = last.get(event.member, event), event
            now, then = (report.reading.metrics.get("requests_total") for report in (event, before))
            if now is None or then is None:
                continue
            own = 1  # the agent's request for server-status
            if (count := int(now - then) - own) > 0:
                yield QuerySpan(max(0.0, before.time), max(0.0, event.time), count, None)


def look_ups(recording: Recording) -> tuple[float, ...]:
    """Return one random time for each query, within its period. Every call returns the same times."""
    chance = Random("1 look-ups")
    return tuple(sorted(chance.uniform(span.begin, span.end) for span in spans(recording) for _ in range(span.count)))


def replay(recording: Recording, policy: str, stale_after: float, min_usable: float) -> ReplayedPolicy:
    """Return the answers that ``policy`` would have given to the recorded queries, based on the recorded reports."""
    # The chooser's clock begins at 0, but reports from before the recording have negative times
    shift = -min(0.0, recording.events[0].time) if recording.events else 0.0
    dns = SimulatedDnsServer(
        recording.members, policy, PoolSettings(stale_after, min_usable), Random(f"replay {policy}")
    )
    queries = _queries(spans(recording))
    reports = [event for event in recording.events if isinstance(event, RecordedReport)]

    def answers() -> Iterator[tuple[float, int, int]]:
        query = next(queries, math.inf)
        for report in (*reports, None):
            until = math.inf if report is None else report.time
            while query < until:
                while dns.next_change <= query + shift:
                    dns.update(dns.next_change)
                yield query, dns.cursor.next(), 1
                query = next(queries, math.inf)
            if report is not None:
                received = report.time + shift
                dns.receive(report.member, replace(report.reading, received=received), received)

    found, real = _counted(recording, policy, answers()), answered(recording)
    return replace(found, diverted=_diverted(found.timeline, real.timeline)) if real else found


def answered(recording: Recording) -> ReplayedPolicy | None:
    """Return the recorded answers as if a policy had given them, or None if the recording contains no answers."""
    if not any(recording.answered):
        return None
    answers = (((s.begin + s.end) / 2, i, count) for s in spans(recording) for i, count in enumerate(s.answered or ()))
    return replace(_counted(recording, "answered", answers), diverted=0.0)


def _counted(recording: Recording, policy: str, answers: Iterable[tuple[float, int, int]]) -> ReplayedPolicy:
    """Sum the (time, member, number) tuples in ``answers`` by step and member."""
    step = max(MIN_STEP, recording.seconds / MAX_STEPS)
    counts = [[0] * len(recording.members) for _ in range(max(1, round(recording.seconds / step)))]
    for time, member, count in answers:
        counts[min(len(counts) - 1, int(time / step))][member] += count
    totals = tuple(map(sum, zip(*counts, strict=True)))
    return ReplayedPolicy(policy, recording.members, totals, step, tuple(map(tuple, counts)), None)


def _queries(found: Sequence[QuerySpan]) -> Iterator[float]:
    """Yield the times of queries in chronological order, evenly spaced within each period."""
    times = (s.begin + (k + 0.5) / s.count * (s.end - s.begin) for s in found for k in range(s.count))
    # Spans of answers do not overlap, but spans of several web servers' requests do
    return times if found and found[0].answered is not None else iter(sorted(times))


def _diverted(ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> float:
    """Return the fraction of answers that would have named a different member, based on the counts per step."""
    gaps = whole = 0.0
    for one, other in zip(ours, theirs, strict=True):
        gaps += sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2
        whole += max(sum(one), sum(other))
    return gaps / whole if whole else 0.0


def replayed_requests(recording: Recording) -> dict[str, Any]:
    """Return the ``Scenario`` fields for the recorded lookups: arrivals, warm-up and duration."""
    warm_up = min(20.0, recording.seconds / 10)
    return {"arrivals": look_ups(recording), "warm_up": warm_up, "duration": recording.seconds - warm_up}
