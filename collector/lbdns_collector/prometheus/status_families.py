"""Builds the Prometheus text that a program serves at ``/metrics``.

Every program exports families about its build, reports, events, reloads, history and event loop lag. Some programs
export additional families.
"""

from __future__ import annotations

import itertools
import platform
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import ProcessCollector
from prometheus_client.core import HistogramMetricFamily, Metric

from lbdns import __version__
from lbdns.counting.event_loop_lag import cumulative_lag
from lbdns.events.event_log import EVENT_KINDS, EventLog
from lbdns_collector.prometheus.exposition import exposition_text, families, family, in_slices
from lbdns_collector.prometheus.member_families import has_member_series, member_families, pool_families
from lbdns_collector.status.status_source import StatusSource, member_inputs

if TYPE_CHECKING:
    from lbdns_collector.reports.bus_status import BusStatus
    from lbdns_collector.reports.collector import Collector

LEVELS: Final = ("info", "warning", "error")
#: The results of a reload, and the level of the event that reports each
_RESULTS: Final[Mapping[str, str]] = {"success": "info", "failure": "error"}
HEALTHY: Final = "1 if the program is serving (/healthz returns status 200), otherwise 0"
#: The name and help of the metric
LOG_LINES_LOST: Final = ("lbdns_log_lines_lost", "Log lines that were dropped or could not be written")
_process = ProcessCollector(registry=None)
NO_REFUSALS: Final[Mapping[str, int]] = MappingProxyType({})


async def metrics_text(source: StatusSource, refused: Mapping[str, int] = NO_REFUSALS) -> bytes:
    """Return all metric families of ``source`` as Prometheus text.

    ``refused`` contains the number of refused HTTP requests for each reason.
    """
    return b"".join(await in_slices(exposition_text(metric_families(source, refused))))


def metric_families(source: StatusSource, refused: Mapping[str, int] = NO_REFUSALS) -> Iterator[Metric]:
    """Yield all metric families of ``source``.

    Families are computed one by one, but all of them reflect the program's state at the time of the call.
    """
    inputs, program = member_inputs(source), source.program
    build, versions = "Version of the program; the value is always 1", (__version__, platform.python_version())
    reports = "Datagrams received on the report port, by result (accepted, or the reason why they were dropped)"
    return itertools.chain(
        families("lbdns_build_info", "gauge", build, ("version", "python"), [(versions, 1)]),
        families("lbdns_healthy", "gauge", HEALTHY, (), [((), int(not program.fault))]),
        _counts("lbdns_reports", reports, "result", source.counters.report_counts),
        pool_families(inputs),
        member_families(inputs),
        event_families(program.events, inputs.server.started),
        history_families(asdict(program.history.status) if program.history else None),
        _counts("lbdns_http_refused", "HTTP requests refused, by reason", "reason", refused),
        source.counters.metric_families(),
        _process.collect(),
    )


def _counts(name: str, text: str, label: str, counts: Mapping[str, int]) -> Iterable[Metric]:
    return families(name, "counter", text, (label,), [((value,), count) for value, count in counts.items()])


def event_families(events: EventLog, started: float) -> Iterator[Metric]:
    """Yield the metric families for events (counted by kind and level) and for reloads.

    ``started`` is the Unix time at which the configuration was first read.
    """
    counts = [((kind, level), events.counts[kind, level]) for kind in EVENT_KINDS for level in LEVELS]
    yield from families("lbdns_events", "counter", "Events in the log", ("kind", "level"), counts)
    reloads = [((result,), events.counts["reload", level]) for result, level in _RESULTS.items()]
    yield from families("lbdns_config_reloads", "counter", "Reloads of the configuration", ("result",), reloads)
    good, bad = (events.last.get(("reload", level)) for level in _RESULTS.values())
    text = "0 if the last reload failed, otherwise 1"
    is_good = bad is None or (good is not None and good.id > bad.id)
    yield family("lbdns_config_last_reload_successful", "gauge", text, is_good)
    text = "Unix time at which the configuration in force was read"
    since = good.time if good else started
    yield family("lbdns_config_last_reload_success_timestamp_seconds", "gauge", text, since)


def history_families(history: Mapping[str, Any] | None) -> Iterator[Metric]:
    """Yield the metric families for the recorded history, or nothing if recording is off."""
    if history is None:
        return
    yield family("lbdns_history_ok", "gauge", "1 while the history is being recorded", history["ok"])
    text = "Samples and events that could not be recorded"
    yield family("lbdns_history_dropped", "counter", text, history["dropped"])
    yield family("lbdns_history_size_bytes", "gauge", "Size of the history's files", history["bytes"])


def collector_families(collector: Collector) -> Iterator[Metric]:
    """Yield the metric families of a built-in collector, except the report counters."""
    text = "Checks of members by the collector, by result (passed, failed, not_made)"
    yield from families("lbdns_checks", "counter", text, ("pool", "result"), list(collector.check_counts.items()))
    text = "Datagrams that the kernel dropped because the receive buffer was full"
    yield family("lbdns_report_overflows", "counter", text, collector.overflows)
    text = "Rejected reports by source, claimed host and reason; at most ten senders"
    rows = [
        ((sender.source, sender.host, reason), count)
        for sender in collector.table.rejected.exported(time.time())
        for reason, count in sender.counts.items()
    ]
    yield from families("lbdns_rejected_reports", "counter", text, ("source", "host", "reason"), rows)
    yield from _bus_families(collector.table.bus)
    skews = collector.table.skews
    text = "Largest absolute difference between a host's clock and the collector's"
    if skews:
        yield family("lbdns_host_clock_skew_max_seconds", "gauge", text, max(map(abs, skews.values())))
    if has_member_series(collector.farm):
        by_host = [((host,), seconds) for host, seconds in skews.items()]
        text = "Seconds by which the host's clock is ahead of the collector's"
        yield from families("lbdns_host_clock_skew_seconds", "gauge", text, ("host",), by_host)


def _bus_families(bus: BusStatus | None) -> Iterator[Metric]:
    if bus is None:
        return
    yield family("lbdns_bus_connected", "gauge", "1 while the collector receives reports from the bus", bus.connected)
    text = "Reports received from the bus, by result (accepted, or the reason why they were dropped)"
    yield from _counts("lbdns_bus_reports", text, "result", bus.counts)


def snapshot_families(counts: Mapping[str, int]) -> Iterator[Metric]:
    """Yield the metric family for the snapshots that a collector shares, or a server receives, over a bus."""
    text = "Messages with snapshots on the bus, by result"
    yield from _counts("lbdns_bus_snapshot_messages", text, "result", counts)


def lag_families(checks: Mapping[tuple[str, int], int], microseconds: Mapping[str, int]) -> Iterator[Metric]:
    """Yield two histograms of the event loop lag: one for the main process, and one for all workers combined."""
    text = "Delay of event loop timers in the main process, or in all workers combined"
    histogram = HistogramMetricFamily("lbdns_event_loop_lag_seconds", text, labels=("process",))
    for process in ("main", "worker"):
        if process not in microseconds:
            continue
        buckets = cumulative_lag({bound: n for (name, bound), n in checks.items() if name == process})
        histogram.add_metric((process,), buckets, microseconds[process] / 1e6)
    if histogram.samples:
        yield histogram
