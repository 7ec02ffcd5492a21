"""Metric families that every program of the project exports: events, reloads, history, event loop lag."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import HistogramMetricFamily, Metric

from lbdns import __version__
from lbdns.counting.event_loop_lag import BEYOND, BOUNDS
from lbdns.events.event_log import EVENT_KINDS, EventLog
from lbdns_collector.prometheus.exposition import families, family

LEVELS: Final = ("info", "warning", "error")
#: The results of a reload, and the level of the event that reports each
_RESULTS: Final[Mapping[str, str]] = {"success": "info", "failure": "error"}


def build_info() -> Iterable[Metric]:
    """Return the family that names the versions of lbdns and Python."""
    text = "Version of the program; the value is always 1"
    versions = __version__, platform.python_version()
    return families("lbdns_build_info", "gauge", text, ("version", "python"), [(versions, 1)])


def reports_total(counts: Mapping[str, int]) -> Iterable[Metric]:
    """Return the family of report datagrams by result."""
    text = "Datagrams on the report port by result: accepted, or the reason to drop them"
    return families("lbdns_reports", "counter", text, ("result",), [((result,), n) for result, n in counts.items()])


def event_families(events: EventLog, started: float) -> Iterator[Metric]:
    """Yield events by kind and level, and what they say about reloads.

    ``started`` is when the configuration was first read, in Unix seconds.
    """
    counts = [((kind, level), events.counts[kind, level]) for kind in EVENT_KINDS for level in LEVELS]
    yield from families("lbdns_events", "counter", "Events in the log", ("kind", "level"), counts)
    reloads = [((result,), events.counts["reload", level]) for result, level in _RESULTS.items()]
    yield from families("lbdns_config_reloads", "counter", "Reloads of the configuration", ("result",), reloads)
    good, bad = (events.last.get(("reload", level)) for level in _RESULTS.values())
    text = "1 if the last reload succeeded; 0 while an old configuration stays in force after a failed one"
    is_good = bad is None or (good is not None and good.id > bad.id)
    yield family("lbdns_config_last_reload_successful", "gauge", text, is_good)
    text = "When the configuration in force was read"
    since = good.time if good else started
    yield family("lbdns_config_last_reload_success_timestamp_seconds", "gauge", text, since)


def history_families(history: Mapping[str, Any] | None) -> Iterator[Metric]:
    """Yield the state of the history; nothing if recording is off."""
    if history is None:
        return
    yield family("lbdns_history_ok", "gauge", "1 while the history is being recorded", history["ok"])
    text = "Samples and events that could not be recorded"
    yield family("lbdns_history_dropped", "counter", text, history["dropped"])
    yield family("lbdns_history_size_bytes", "gauge", "Size of the history's files", history["bytes"])


def refusals(counts: Mapping[str, int]) -> Iterable[Metric]:
    """Return the family of refused HTTP requests by reason."""
    text = "HTTP requests refused, by reason"
    return families("lbdns_http_refused", "counter", text, ("reason",), [((why,), n) for why, n in counts.items()])


def lag_families(looks: Mapping[tuple[str, int], int], microseconds: Mapping[str, int]) -> Iterator[Metric]:
    """Yield the event loop lag that ``lbdns.counting.event_loop_lag`` measures, as a histogram for each process."""
    text = "How late event loops run what is due; all workers together"
    histogram = HistogramMetricFamily("lbdns_event_loop_lag_seconds", text, labels=("process",))
    for process in ("main", "worker"):
        if process not in microseconds:
            continue
        counts = {bound: n for (name, bound), n in looks.items() if name == process}
        passed, buckets = 0, []
        for bound in sorted({*BOUNDS, *counts} - {BEYOND}):
            passed += counts.get(bound, 0)
            buckets.append((repr(bound / 1e6), passed))
        buckets.append(("+Inf", passed + counts.get(BEYOND, 0)))
        histogram.add_metric((process,), buckets, microseconds[process] / 1e6)
    if histogram.samples:
        yield histogram
