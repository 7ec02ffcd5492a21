"""Synthetic recordings for tests: a pool's reports and answers, in the form that a recorder writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lbdns.model.snapshot import Reading
from lbdns.scores.thesis import THESIS
from lbdns_tools.sim.recording_format import RecordedAnswers, RecordedEvent, RecordedReport, Recording, RecordingHeader


def record(members: Mapping[str, Mapping[str, float]], seconds: int, answers: Sequence[int] | None) -> Recording:
    """Return a recording with one report per second from each member. ``requests`` and ``cpu`` are the increases of
    ``requests_total`` and ``httpd_cpu_seconds`` per second; ``answers`` lists each member's answers per second."""
    names = tuple(members)
    events: list[RecordedEvent] = []
    for second in range(seconds + 1):
        for i, name in enumerate(names):
            metrics = dict(members[name])
            requests, cpu = metrics.pop("requests", None), metrics.pop("cpu", None)
            if requests is not None:
                metrics |= {"requests_total": 1000.0 + second * requests, "requests_per_s": requests}
            if cpu is not None:
                metrics["httpd_cpu_seconds"] = 10.0 + second * cpu
            time = second - 0.5 + 0.1 * i
            events.append(RecordedReport(name, Reading(time, 1.0, THESIS.of(metrics), metrics)))
        if answers is not None and second:
            events.append(RecordedAnswers(float(second), tuple(answers)))
    events.sort(key=lambda event: event.time)
    return Recording(RecordingHeader("web", "hobbit", names, {"best": "best"}, 1.7e9), tuple(events))
