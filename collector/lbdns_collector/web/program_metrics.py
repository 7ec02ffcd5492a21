"""Metric families of what goes on in a program of ours, whichever it is: events, reloads, history, event loop."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import HistogramMetricFamily, Metric

from lbdns import __version__
from lbdns.events import KINDS, Events
from lbdns.server.net.lag import BEYOND, BOUNDS
from lbdns_collector.web.exposition import families, family

LEVELS: Final = ("info", "warning", "error")
#: What becomes of a reload, and the level of the event that tells it
_RESULTS: Final[Mapping[str, str]] = {"success": "info", "failure": "error"}


def build_info() -> Iterable[Metric]:
    text = "Version of the program; the value is always 1"
    versions = __version__, platform.python_version()
    return families("lbdns_build_info", "gauge", text, ("version", "python"), [(versions, 1)])


def reports_total(counts: Mapping[str, int]) -> Iterable[Metric]:
    text = "Datagrams on the report port, by result: accepted, or why dropped"
    return families("lbdns_reports", "counter", text, ("result",), [((result,), n) for result, n in counts.items()])


def event_families(events: Events, started: float) -> Iterator[Metric]:
    """Events by kind and level, and what those of reloads say; ``started``, in Unix seconds, is when the configuration
    was read first."""
    counts = [((kind, level), events.counts[kind, level]) for kind in KINDS for level in LEVELS]
    yield from families("lbdns_events", "counter", "What happened, as the log tells it", ("kind", "level"), counts)
    reloads = [((result,), events.counts["reload", level]) for result, level in _RESULTS.items()]
    yield from families("lbdns_config_reloads", "counter", "Reloads of the configuration", ("result",), reloads)
    good, bad = (events.last.get(("reload", level)) for level in _RESULTS.values())
    text = "1 unless the last reload of the configuration failed, so that an old one is in force"
    is_good = bad is None or (good is not None and good.id > bad.id)
    yield family("lbdns_config_last_reload_successful", "gauge", text, is_good)
    text = "When the configuration that is in force was read"
    since = good.time if good else started
    yield family("lbdns_config_last_reload_success_timestamp_seconds", "gauge", text, since)


def history_families(history: Mapping[str, Any] | None) -> Iterator[Metric]:
    """How recording goes; nothing where nothing is recorded."""
    if history is None:
        return
    yield family("lbdns_history_ok", "gauge", "1 while the history is recorded", history["ok"])
    text = "What should have been recorded and could not be"
    yield family("lbdns_history_dropped", "counter", text, history["dropped"])
    yield family("lbdns_history_size_bytes", "gauge", "Size of the history's files", history["bytes"])


def refusals(counts: Mapping[str, int]) -> Iterable[Metric]:
    text = "HTTP requests refused, by reason"
    return families("lbdns_http_refused", "counter", text, ("reason",), [((why,), n) for why, n in counts.items()])


def lag_families(looks: Mapping[tuple[str, int], int], microseconds: Mapping[str, int]) -> Iterator[Metric]:
    """How late event loops were, as ``lbdns.server.figures`` counts it."""
    text = "How late event loops are with what is due; of workers together"
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
