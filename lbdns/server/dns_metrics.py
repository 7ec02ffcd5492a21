"""What the DNS server counts, as Prometheus families, worked out when somebody scrapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from lbdns.answering.constants import TYPE_NAMES, Rcode
from lbdns.answering.table import Table
from lbdns.server.durations import Durations

Labels = TypeVar("Labels", bound=tuple[str, ...])


def dns_families(table: Table, durations: Durations) -> Iterable[Metric]:
    """Requests, responses, durations and hand-outs of one server."""
    requests: Counter[tuple[str, str, str]] = Counter()
    responses: Counter[tuple[str, str]] = Counter()
    for (zone, qtype, transport, rcode), count in table.queries().items():
        # Types and rcodes outside the well-known are one label: clients can't make up new ones
        requests[zone, TYPE_NAMES.get(qtype, "other"), transport] += count
        responses[zone, Rcode(rcode).name] += count
    yield _counter("lbdns_dns_requests", "Queries answered", ("zone", "type", "transport"), requests)
    yield _counter("lbdns_dns_responses", "Responses sent", ("zone", "rcode"), responses)
    histogram = HistogramMetricFamily(
        "lbdns_dns_request_duration_seconds", "From reading a query to having sent its response"
    )
    histogram.add_metric((), durations.cumulative(), durations.total)
    yield histogram
    answers: Counter[tuple[str, str, str]] = Counter()
    for pool in table.farm.pools:
        for policy in dict.fromkeys(pool.owners.values()):
            totals = table.handouts[pool.name, policy].totals()
            for member, total in zip(pool.members, totals, strict=True):
                answers[pool.name, policy, member.name] = total
    yield _counter("lbdns_answers", "Members handed out", ("pool", "policy", "member"), answers)


def server_families(fail_opens: int, open_pools: dict[str, bool], unsent: int, failed: int) -> Iterable[Metric]:
    """What an operator watches besides."""
    for name, text, value in (
        ("lbdns_fail_opens", "Times a pool began to fail open", fail_opens),
        ("lbdns_dns_responses_unsent", "Responses the kernel would not take", unsent),
        ("lbdns_dns_queries_failed", "Queries dropped because answering them failed", failed),
    ):
        family = CounterMetricFamily(name, text)
        family.add_metric((), value)
        yield family
    gauge = GaugeMetricFamily("lbdns_pool_fail_open", "1 while a pool fails open", labels=("pool",))
    for pool, is_open in open_pools.items():
        gauge.add_metric((pool,), float(is_open))
    yield gauge


def _counter(name: str, text: str, labels: Sequence[str], counts: Mapping[Labels, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family
