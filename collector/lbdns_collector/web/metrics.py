"""/metrics: the collector's metric families, joined with the source's own, as Prometheus text."""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric

from lbdns import __version__
from lbdns_collector.status import ServerFigures, Situation
from lbdns_collector.web.exposition import families, family, in_slices, written
from lbdns_collector.web.member_metrics import are_told, member_families, pool_families
from lbdns_collector.web.program_metrics import build_info, event_families, history_families, refusals, reports_total
from lbdns_collector.web.source import StatusSource

if TYPE_CHECKING:
    from lbdns_collector.collector import Collector

_process = ProcessCollector(registry=None)
Work = Callable[[Iterator[bytes]], Awaitable[list[bytes]]]
NOBODY: Final[Mapping[str, int]] = MappingProxyType({})


async def metrics_text(source: StatusSource, refused: Mapping[str, int] = NOBODY, work: Work = in_slices) -> bytes:
    """Every family the source knows, in the Prometheus text format. ``refused``: HTTP requests, by reason; ``work``
    does all the small steps that it takes, and lets others have their turn between them."""
    return b"".join(await work(written(metric_families(source, refused))))


def metric_families(source: StatusSource, refused: Mapping[str, int] = NOBODY) -> Iterator[Metric]:
    """They are worked out as they are asked for, from what was known when the first one was."""
    now = _situation(source)
    return itertools.chain(
        build_info(),
        reports_total(dict(source.report_counts)),
        pool_families(now),
        member_families(now),
        event_families(source.events, time.time() - source.uptime_s),
        history_families(asdict(source.history.figures) if source.history else None),
        refusals(dict(refused)),
        source.metric_families(),
        _process.collect(),
    )


def _situation(source: StatusSource) -> Situation:
    """Of what a page shows, what families are made from; the rest takes its time with many members."""
    farm = source.farm
    return Situation(
        farm=farm,
        snapshot=source.snapshot,
        now=time.monotonic(),
        overrides=source.overrides,
        answers={},
        server=ServerFigures(__version__, source.uptime_s, source.queries, source.workers),
        capacities={pool.name: source.capacities(pool.name) for pool in farm.pools},
        guards={pool.name: guards for pool in farm.pools if (guards := tuple(source.guards(pool.name)))},
    )


def collector_families(collector: Collector) -> Iterator[Metric]:
    """What an own collector knows beyond its counts; a source that has one joins them to its families."""
    text = "Datagrams the kernel dropped because the receive buffer was full"
    yield family("lbdns_report_overflows", "counter", text, collector.overflows)
    skews = collector.table.skews
    text = "How far the clock that is most wrong is from the collector's, whichever way"
    if skews:
        yield family("lbdns_host_clock_skew_max_seconds", "gauge", text, max(map(abs, skews.values())))
    if are_told(collector.farm):
        rows = [((host,), seconds) for host, seconds in skews.items()]
        text = "How far the host's clock is ahead of the collector's"
        yield from families("lbdns_host_clock_skew_seconds", "gauge", text, ("host",), rows)
