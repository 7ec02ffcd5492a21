"""Estimates the farm in a recording: the servers' speeds, cores and background load, and the request rate."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from lbdns.choosing.capacity_estimate import PRIOR, ServedWork, common_speed, enough_observed
from lbdns.choosing.reported_values import counted_cores
from lbdns.choosing.request_cost import ENOUGH, RequestCost
from lbdns.model.snapshot import Reading
from lbdns_tools.sim.recording_format import RecordedReport, Recording
from lbdns_tools.sim.simulation_scenario import ServerSpec

LEAST_BACKGROUND: Final = 0.05  # tasks; anything below is a passing cron job or the agent itself


@dataclass(frozen=True, slots=True)
class FarmEstimate:
    """An estimated farm.

    ``rate`` is the number of visits per second, or None if unknown. A visit consists of all requests that follow one
    DNS answer. ``notes`` explain how each value was estimated.
    """

    servers: tuple[ServerSpec, ...]
    rate: float | None  # visits/s; None if unknown
    interval: float  # s between reports
    notes: tuple[str, ...]  # how each value was estimated


def estimate_farm(recording: Recording, mean_work: float) -> FarmEstimate:
    """Estimate the properties of the recorded farm.

    ``mean_work`` is the mean work per simulated request, in seconds at speed 1. The speeds are scaled so that simulated
    requests and recorded requests cause the same load.
    """
    readings: dict[str, list[Reading]] = defaultdict(list)
    for event in recording.events:
        if isinstance(event, RecordedReport):
            readings[event.member].append(event.reading)
    series = [readings[name] for name in recording.members]
    works = [_work(reports) for reports in series]
    counts = [reports[-1].metrics.get("cpu_count") if reports else None for reports in series]
    cores = counted_cores(counts, math.inf)
    served = ServedWork.of(works)
    known, common = enough_observed(served), common_speed(served)
    speeds = [speed or common for speed in served.speeds]
    per_answer, rate, notes = _rates(recording, series)
    servers = []
    for name, reports, observed, count in zip(recording.members, series, speeds, cores, strict=True):
        speed = observed * mean_work / per_answer if known else 1.0
        servers.append(ServerSpec(name, speed, count, background=_background(reports)))
    intervals = [reading.interval for reports in series for reading in reports]
    interval = sum(intervals) / len(intervals) if intervals else 1.0
    unit = "visits/s" if per_answer > 1 else "requests/s"
    notes = (*_speed_notes(servers, counts, known, works, mean_work, unit), *notes)
    return FarmEstimate(tuple(servers), rate, interval, notes)


def _work(reports: Sequence[Reading]) -> RequestCost:
    """Return the total requests and CPU seconds in a member's reports.

    The policy ``best`` counts requests and CPU seconds in the same way, but with decay.
    """
    total = RequestCost()
    for before, now in pairwise(reports):
        step = RequestCost()
        step.observe(before.metrics, 0.0)
        step.observe(now.metrics, now.received - before.received)
        total.work.requests += step.work.requests
        total.work.cpu_seconds += step.work.cpu_seconds
        total.counted = step.counted
    return total


def _rates(recording: Recording, series: Sequence[Sequence[Reading]]) -> tuple[float, float | None, tuple[str, ...]]:
    """Return the requests per answer, the visits per second, and notes on both estimates."""
    rates = [rate for reports in series if (rate := _requests_per_s(reports)) is not None]
    # Assume that members without request counts get as many requests as the others
    requests = sum(rates) * len(series) / len(rates) if rates else None
    answers = sum(recording.answered) / recording.seconds if recording.seconds > 0 else 0.0
    if answers > 0 and requests:
        ratio = max(1.0, requests / answers)
        note = f"rate: {answers:.3g} answers/s counted, and {requests / answers:.3g} requests per answer"
        if ratio > 1:
            note += ", simulated as one visit"
        return ratio, answers, (note,)
    if answers > 0:
        return 1.0, answers, (f"rate: {answers:.3g} answers/s counted; the number of requests per answer is unknown",)
    if requests:
        note = f"rate: {requests:.3g} requests/s from requests_per_s, excluding one server-status request per report"
        return 1.0, requests, (note,)
    return 1.0, None, ("rate: unknown, because no requests or answers were recorded; specify --load or --rate",)


def _requests_per_s(reports: Sequence[Reading]) -> float | None:
    found = [
        max(0.0, reading.metrics["requests_per_s"] - 1 / reading.interval)  # without the agent's own request
        for reading in reports
        if "requests_per_s" in reading.metrics
    ]
    return sum(found) / len(found) if found else None


def _background(reports: Sequence[Reading]) -> float:
    """Return the mean number of runnable tasks that are not busy workers of the web server."""
    beyond = [
        max(0.0, reading.metrics["run_queue"] - reading.metrics["busy_workers"])
        for reading in reports
        if {"run_queue", "busy_workers"} <= reading.metrics.keys()
    ]
    mean = sum(beyond) / len(beyond) if beyond else 0.0
    return mean if mean >= LEAST_BACKGROUND else 0.0


def _speed_notes(
    servers: Sequence[ServerSpec],
    counts: Sequence[float | None],
    known: bool,
    works: Sequence[RequestCost],
    mean_work: float,
    unit: str,
) -> tuple[str, ...]:
    notes = []
    if not known:
        notes.append(
            f"speed: assumed to be 1 for all cores, because CPU time was recorded for no more than {ENOUGH:g} requests"
        )
    elif any(work.counted and work.work.cpu_seconds < PRIOR for work in works):
        notes.append(f"speed: inaccurate for servers with less than {PRIOR:g} s of CPU time; make a longer recording")
    for server, cores, work in zip(servers, counts, works, strict=True):
        parts = [f"{server.cores:g} cores ({'cpu_count' if cores else 'unknown, assumed to match the other servers'})"]
        if known:
            carried = f"{server.capacity / mean_work:.3g} {unit}"
            seen = (
                f"{work.work.requests:.0f} requests in {work.work.cpu_seconds:.3g} s of CPU time"
                if work.counted
                else "assumed to match the other servers"
            )
            parts.append(f"speed {server.speed:.3g} ({seen}: {carried})")
        if server.background:
            parts.append(f"{server.background:.2g} other runnable tasks (run_queue minus busy_workers)")
        notes.append(f"{server.name}: {', '.join(parts)}")
    return tuple(notes)
