"""What the DNS server counts, as Prometheus families, worked out when somebody scrapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from lbdns.answering.constants import TYPE_NAMES, Rcode
from lbdns.farm import Farm
from lbdns.server.figures import Figures
from lbdns.server.net.durations import cumulative
from lbdns.shadows import shadows_of

Labels = TypeVar("Labels", bound=tuple[str, ...])


#: What else is counted: the name here -> the metric's, and what it says
_NAMED: Final[Mapping[str, tuple[str, str]]] = {
    "fail_opens": ("lbdns_fail_opens", "Times a pool began to fail open"),
    "unsent": ("lbdns_dns_responses_unsent", "Responses the kernel would not take"),
    "failed": ("lbdns_dns_queries_failed", "Queries dropped because answering them failed"),
    "tcp_closed_early": ("lbdns_dns_tcp_closed_early", "TCP connections closed by a limit"),
    "shed": ("lbdns_dns_queries_shed", "Unusual queries left unanswered in a flood, so that usual ones are answered"),
    "rate_limit_dropped": ("lbdns_dns_rate_limit_dropped", "Responses not given because of the rate limit"),
    "rate_limit_cut": ("lbdns_dns_rate_limit_cut", "Responses cut to 'ask over TCP' because of the rate limit"),
    "too_long_cut": ("lbdns_dns_too_long_cut", "Responses cut to 'ask over TCP' because they were too long for UDP"),
    "repeated": ("lbdns_dns_repeated", "Queries that arrived again and got the member they had got before"),
    "coherent": ("lbdns_dns_coherent", "Queries that got the member their client had got for another type"),
    "worker_restarts": ("lbdns_worker_restarts", "Answering processes that died and were replaced"),
}


def dns_families(farm: Farm, figures: Figures) -> Iterable[Metric]:
    """Requests, responses, durations and hand-outs."""
    requests: Counter[tuple[str, str, str]] = Counter()
    responses: Counter[tuple[str, str]] = Counter()
    for (zone, qtype, transport, rcode), count in figures.asked.items():
        # Types and rcodes outside the well-known are one label: clients can't make up new ones
        requests[zone, TYPE_NAMES.get(qtype, "other"), transport] += count
        responses[zone, Rcode(rcode).name] += count
    yield _counter("lbdns_dns_requests", "Queries answered", ("zone", "type", "transport"), requests)
    yield _counter("lbdns_dns_responses", "Responses sent", ("zone", "rcode"), responses)
    histogram = HistogramMetricFamily(
        "lbdns_dns_request_duration_seconds", "From reading a query to having sent its response"
    )
    histogram.add_metric((), cumulative(figures.durations), figures.seconds)
    yield histogram
    answers = {
        (pool.name, policy, member.name): figures.answers.get((pool.name, policy, member.full_name), 0)
        for pool in farm.pools
        for policy in dict.fromkeys(pool.owners.values())
        for member in pool.members
    }
    yield _counter("lbdns_answers", "Members handed out", ("pool", "policy", "member"), answers)
    yield from _shadow_families(farm, figures)


def _shadow_families(farm: Farm, figures: Figures) -> Iterable[Metric]:
    """What is tried beside the policies, if anything is."""
    answers: dict[tuple[str, str, str, str], int] = {}
    diverted: dict[tuple[str, str, str], int] = {}
    for pool in farm.pools:
        for config in shadows_of(pool.config, farm.config.collector):
            key = pool.name, config.live, config.name
            diverted[key] = figures.diverted.get(key, 0)
            for member in pool.members:
                answers[*key, member.name] = figures.shadow_answers.get((*key, member.full_name), 0)
    if diverted:
        labels = ("pool", "policy", "shadow")
        text = "Members that would have been handed out by what is tried in the shadow of a policy"
        yield _counter("lbdns_shadow_answers", text, (*labels, "member"), answers)
        yield _counter("lbdns_shadow_diverted", "Hand-outs that would have gone to another member", labels, diverted)


def server_families(named: Mapping[str, int], open_pools: Mapping[str, bool]) -> Iterable[Metric]:
    """What an operator watches besides. A count without a line in the table above is told under its own name."""
    for key in (*_NAMED, *sorted(named.keys() - _NAMED.keys())):
        name, text = _NAMED.get(key, (f"lbdns_dns_{key}", key.replace("_", " ").capitalize()))
        family = CounterMetricFamily(name, text)
        family.add_metric((), named.get(key, 0))
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
