"""What policies would have answered: a record's reports drive the product's chooser, its queries are handed out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from lbdns_tools.sim.dns import DnsServer
from lbdns_tools.sim.recording import Answered, Heard, Recording
from lbdns_tools.sim.scenario import Scenario

MOMENTS: Final = 240  # at most so many moments: more than a picture can show
LEAST_MOMENT: Final = 1.0  # s: the answers of a record are counted once a second


@dataclass(frozen=True, slots=True)
class Span:
    """``count`` queries that came from ``begin`` to ``end`` (s); ``answered`` says who was really handed out."""

    begin: float
    end: float
    count: int
    answered: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Replayed:
    """What one policy would have answered. ``timeline`` holds counts by member for moments of ``step`` seconds."""

    policy: str
    members: tuple[str, ...]
    totals: tuple[int, ...]
    step: float
    timeline: tuple[tuple[int, ...], ...]
    diverted: float | None  # share of the answers, moment by moment, that went to others; None: unknown who did

    @property
    def shares(self) -> dict[str, float]:
        return shares(self.members, self.totals)

    def as_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "answers": sum(self.totals),
            "shares": self.shares,
            "diverted": self.diverted,
            "moment_s": self.step,
            "timeline": {name: [moment[i] for moment in self.timeline] for i, name in enumerate(self.members)},
        }


def shares(members: Sequence[str], totals: Sequence[int]) -> dict[str, float]:
    whole = sum(totals)
    return {name: count / whole if whole else 0.0 for name, count in zip(members, totals, strict=True)}


def spans(recording: Recording) -> list[Span]:
    """When queries came: as they were answered, or, where nobody counted answers, as the web servers got requests."""
    if any(recording.answered):
        found, before = [], 0.0
        for event in recording.events:
            if isinstance(event, Answered):
                found.append(Span(before, event.time, sum(event.counts), event.counts))
                before = event.time
        return [span for span in found if span.count]
    return sorted(_requests(recording), key=lambda span: span.end)


def _requests(recording: Recording) -> Iterator[Span]:
    last: dict[str, Heard] = {}
    for event in recording.events:
        if isinstance(event, Heard):
            before, last[event.member] = last.get(event.member), event
            now = event.reading.metrics.get("requests_total")
            if before is None or now is None or (then := before.reading.metrics.get("requests_total")) is None:
                continue
            own = 1  # the agent's question to server-status
            if (count := int(now - then) - own) > 0:
                yield Span(max(0.0, before.time), max(0.0, event.time), count, None)


def look_ups(recording: Recording, seed: int) -> tuple[float, ...]:
    """The moments of the queries, each anywhere within its span: counts a second are all that a record knows."""
    chance = Random(f"{seed} look-ups")
    return tuple(sorted(chance.uniform(span.begin, span.end) for span in spans(recording) for _ in range(span.count)))


def replay(recording: Recording, policy: str, stale_after: float, min_usable: float) -> Replayed:
    """Hand out the recorded queries by ``policy``, given the recorded reports at their times."""
    members = recording.members
    # The chooser's clock begins at 0; reports from before the record have times below it
    shift = -min(0.0, recording.events[0].time) if recording.events else 0.0
    dns = DnsServer(members, policy, stale_after, min_usable, Random(f"replay {policy}"), 1)
    counts = _Moments(recording)
    queries = _queries(spans(recording))
    query = next(queries, math.inf)

    def answer_until(moment: float) -> None:
        nonlocal query
        while query < moment:
            while dns.next_change <= query + shift:
                dns.look(dns.next_change)
            counts.add(query, dns.handout.next(), 1)
            query = next(queries, math.inf)

    for event in recording.events:
        if isinstance(event, Heard):
            answer_until(event.time)
            received = event.time + shift
            dns.hear(event.member, replace(event.reading, received=received), received)
    answer_until(math.inf)
    real = answered(recording)
    return counts.replayed(policy, _diverted(counts.counts, real.timeline) if real else None)


def answered(recording: Recording) -> Replayed | None:
    """What was really answered, in the same form; None if nobody counted."""
    if not any(recording.answered):
        return None
    counts = _Moments(recording)
    for span in spans(recording):
        for i, count in enumerate(span.answered or ()):
            counts.add((span.begin + span.end) / 2, i, count)
    return counts.replayed("answered", 0.0)


class _Moments:
    """Counts by moment and member."""

    def __init__(self, recording: Recording) -> None:
        self._members = recording.members
        self._step = max(LEAST_MOMENT, recording.seconds / MOMENTS)
        self.counts = [[0] * len(self._members) for _ in range(max(1, round(recording.seconds / self._step)))]

    def add(self, time: float, member: int, count: int) -> None:
        self.counts[min(len(self.counts) - 1, int(time / self._step))][member] += count

    def replayed(self, policy: str, diverted: float | None) -> Replayed:
        totals = tuple(sum(column) for column in zip(*self.counts, strict=True))
        return Replayed(policy, self._members, totals, self._step, tuple(map(tuple, self.counts)), diverted)


def _queries(found: Sequence[Span]) -> Iterator[float]:
    """The moments of the queries, evenly within their spans, in order."""
    moments = (
        span.begin + (k + 0.5) / span.count * (span.end - span.begin) for span in found for k in range(span.count)
    )
    # Spans of answers follow one another; those of several web servers' requests overlap
    return moments if found and found[0].answered is not None else iter(sorted(moments))


def _diverted(ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> float:
    """Moment by moment, the share of the answers that named somebody else."""
    gaps = whole = 0.0
    for one, other in zip(ours, theirs, strict=True):
        gaps += sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2
        whole += max(sum(one), sum(other))
    return gaps / whole if whole else 0.0


def simulated(recording: Recording, scenario: Scenario, seed: int = 1) -> Scenario:
    """``scenario`` with the recorded look-ups instead of drawn ones, as long as the record."""
    seconds = recording.seconds
    warm_up = min(20.0, seconds / 10)
    return replace(scenario, arrivals=look_ups(recording, seed), warm_up=warm_up, duration=seconds - warm_up)
