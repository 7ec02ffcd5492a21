"""``/metrics``: the families of every program, joined with those of the program that is read, as Prometheus text."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric

from lbdns_collector.prometheus.exposition import exposition_text, families, family, in_slices
from lbdns_collector.prometheus.member_families import has_member_series, member_families, pool_families
from lbdns_collector.prometheus.program_families import (
    build_info,
    event_families,
    history_families,
    refusals,
    reports_total,
)
from lbdns_collector.status.status_source import StatusSource, member_inputs

if TYPE_CHECKING:
    from lbdns_collector.reports.collector import Collector

_process = ProcessCollector(registry=None)
Work = Callable[[Iterator[bytes]], Awaitable[list[bytes]]]
NO_REFUSALS: Final[Mapping[str, int]] = MappingProxyType({})


async def metrics_text(source: StatusSource, refused: Mapping[str, int] = NO_REFUSALS, work: Work = in_slices) -> bytes:
    """Return every family of ``source`` in the Prometheus text format.

    ``refused``: HTTP requests refused, by reason. ``work`` runs the many small steps, and lets other tasks run in
    between.
    """
    return b"".join(await work(exposition_text(metric_families(source, refused))))


def metric_families(source: StatusSource, refused: Mapping[str, int] = NO_REFUSALS) -> Iterator[Metric]:
    """Yield every family of ``source``, computed one by one, but all from the state at the time of the call."""
    inputs, program = member_inputs(source), source.program
    return itertools.chain(
        build_info(),
        reports_total(dict(source.counters.report_counts)),
        pool_families(inputs),
        member_families(inputs),
        event_families(program.events, inputs.server.started),
        history_families(asdict(program.history.status) if program.history else None),
        refusals(dict(refused)),
        source.counters.metric_families(),
        _process.collect(),
    )


def collector_families(collector: Collector) -> Iterator[Metric]:
    """Yield the families of an embedded collector beyond its counts of reports."""
    text = "Datagrams that the kernel dropped because the receive buffer was full"
    yield family("lbdns_report_overflows", "counter", text, collector.overflows)
    skews = collector.table.skews
    text = "Largest difference between a host's clock and the collector's, in either direction"
    if skews:
        yield family("lbdns_host_clock_skew_max_seconds", "gauge", text, max(map(abs, skews.values())))
    if has_member_series(collector.farm):
        rows = [((host,), seconds) for host, seconds in skews.items()]
        text = "By how much the host's clock is ahead of the collector's"
        yield from families("lbdns_host_clock_skew_seconds", "gauge", text, ("host",), rows)
