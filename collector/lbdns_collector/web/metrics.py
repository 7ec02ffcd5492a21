"""/metrics: the collector's metric families, joined with the source's own, as Prometheus text."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as MetricSource

from lbdns import __version__
from lbdns_collector.status import Situation
from lbdns_collector.web.render import is_large
from lbdns_collector.web.source import StatusSource, situation

if TYPE_CHECKING:
    from lbdns_collector.collector import Collector

_process = ProcessCollector(registry=None)


class _Families(MetricSource):
    """Hands families made for one scrape to prometheus_client, which asks a registry for them."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


async def metrics_text(source: StatusSource) -> bytes:
    """Every family the source knows, in the Prometheus text format."""
    now = situation(source)
    rest = [build_info(), reports_total(source.report_counts), *source.metric_families(), *_process.collect()]

    def render() -> bytes:
        return generate_latest(_Families([*member_families(now), *rest]))

    return await asyncio.to_thread(render) if is_large(now) else render()


def build_info() -> Metric:
    family = GaugeMetricFamily(
        "lbdns_build_info", "Version of the program; the value is always 1", labels=("version", "python")
    )
    family.add_metric((__version__, platform.python_version()), 1)
    return family


def reports_total(counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(
        "lbdns_reports", "Datagrams on the report port, by result: accepted, or why dropped", labels=("result",)
    )
    for result, count in counts.items():
        family.add_metric((result,), count)
    return family


def member_families(now: Situation) -> Iterator[Metric]:
    """Score, state, age and guard of every member; a member that never reported has neither score nor age."""
    labels = ("pool", "member")
    score = GaugeMetricFamily("lbdns_member_score", "Score of the newest report", labels=labels)
    usable = GaugeMetricFamily(
        "lbdns_member_usable", "1 if the member reports and is not drained, refused or quarantined", labels=labels
    )
    age = GaugeMetricFamily("lbdns_member_report_age_seconds", "Time since the newest report", labels=labels)
    quarantined = GaugeMetricFamily(
        "lbdns_member_quarantined", "1 while the member gets nothing because it serves nothing", labels=labels
    )
    ramp = GaugeMetricFamily(
        "lbdns_member_ramp", "What part of its share the member gets: below 1 after it came back", labels=labels
    )
    for pool in now.farm.pools:
        states, guards = now.liveness(pool).states, now.guards_of(pool)
        for member, reading, state, guard in zip(pool.members, now.readings(pool), states, guards, strict=True):
            name = (pool.name, member.name)
            usable.add_metric(name, state == "usable" and not guard.quarantined)
            if pool.name in now.guards:
                quarantined.add_metric(name, guard.quarantined)
                ramp.add_metric(name, guard.ramp)
            if reading is not None:
                score.add_metric(name, reading.score)
                age.add_metric(name, max(0.0, now.now - reading.received))
    yield from (score, usable, age, quarantined, ramp)


def collector_families(collector: Collector) -> Iterator[Metric]:
    """What an own collector knows beyond its counts; a source that has one joins them to its families."""
    overflows = CounterMetricFamily(
        "lbdns_report_overflows", "Datagrams the kernel dropped because the receive buffer was full"
    )
    overflows.add_metric((), collector.overflows)
    skew = GaugeMetricFamily(
        "lbdns_host_clock_skew_seconds", "How far the host's clock is ahead of the collector's", labels=("host",)
    )
    for host, seconds in collector.table.skews.items():
        skew.add_metric((host,), seconds)
    yield from (overflows, skew)
