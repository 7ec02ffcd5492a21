"""What the DNS server counts, as Prometheus families, worked out when somebody scrapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import HistogramMetricFamily, Metric

from lbdns.answering.constants import TYPE_NAMES, Rcode
from lbdns.farm import Farm
from lbdns.server.figures import Figures
from lbdns.server.net.durations import cumulative
from lbdns.shadows import shadows_of
from lbdns_collector.web.exposition import Row, families, family
from lbdns_collector.web.member_metrics import are_told
from lbdns_collector.web.program_metrics import lag_families

#: What else is counted: the name here -> the metric's, and what it says
_NAMED: Final[Mapping[str, tuple[str, str]]] = {
    "fail_opens": ("lbdns_fail_opens", "Times a pool began to fail open"),
    "unsent": ("lbdns_dns_responses_unsent", "Responses the kernel would not take"),
    "failed": ("lbdns_dns_queries_failed", "Queries dropped because answering them failed"),
    "udp_overflows": ("lbdns_dns_udp_overflows", "Queries the kernel dropped because the receive buffer was full"),
    "tcp_accepted": ("lbdns_dns_tcp_accepted", "TCP connections accepted"),
    "tcp_closed_early": ("lbdns_dns_tcp_closed_early", "TCP connections closed by a limit"),
    "shed": ("lbdns_dns_queries_shed", "Unusual queries left unanswered in a flood, so that usual ones are answered"),
    "rate_limit_dropped": ("lbdns_dns_rate_limit_dropped", "Responses not given because of the rate limit"),
    "rate_limit_cut": ("lbdns_dns_rate_limit_cut", "Responses cut to 'ask over TCP' because of the rate limit"),
    "too_long_cut": ("lbdns_dns_too_long_cut", "Responses cut to 'ask over TCP' because they were too long for UDP"),
    "repeated": ("lbdns_dns_repeated", "Queries that arrived again and got the member they had got before"),
    "coherent": ("lbdns_dns_coherent", "Queries that got the member their client had got for another type"),
    "query_log_lost": ("lbdns_query_log_lost", "Lines of the query log that could not be written"),
    "worker_restarts": ("lbdns_worker_restarts", "Answering processes that died and were replaced"),
}
_SHADOW: Final = ("pool", "policy", "shadow")


def dns_families(farm: Farm, figures: Figures) -> Iterator[Metric]:
    """Requests, responses, durations and hand-outs."""
    requests: Counter[tuple[str, str, str]] = Counter()
    responses: Counter[tuple[str, str]] = Counter()
    for (zone, qtype, transport, rcode), count in figures.asked.items():
        # Types and rcodes outside the well-known are one label: clients can't make up new ones
        requests[zone, TYPE_NAMES.get(qtype, "other"), transport] += count
        responses[zone, Rcode(rcode).name] += count
    labels = "zone", "type", "transport"
    yield from families("lbdns_dns_requests", "counter", "Queries answered", labels, requests.items())
    yield from families("lbdns_dns_responses", "counter", "Responses sent", ("zone", "rcode"), responses.items())
    histogram = HistogramMetricFamily(
        "lbdns_dns_request_duration_seconds", "From reading a query to having sent its response"
    )
    histogram.add_metric((), cumulative(figures.durations), figures.seconds)
    yield histogram
    yield from _answer_families(farm, figures)
    yield from _shadow_families(farm, figures)


def _answer_families(farm: Farm, figures: Figures) -> Iterator[Metric]:
    """Hand-outs: of pools, and of members where these are told one by one."""
    handed = Counter[tuple[str, str]]({(p.name, policy): 0 for p in farm.pools for policy in p.owners.values()})
    for (pool, policy, _), count in figures.answers.items():
        if (pool, policy) in handed:
            handed[pool, policy] += count
    yield from families("lbdns_pool_answers", "counter", "Members handed out", ("pool", "policy"), handed.items())
    if are_told(farm):
        rows = (
            ((pool.name, policy, member.name), figures.answers.get((pool.name, policy, member.full_name), 0))
            for pool in farm.pools
            for policy in dict.fromkeys(pool.owners.values())
            for member in pool.members
        )
        yield from families("lbdns_answers", "counter", "Members handed out", ("pool", "policy", "member"), rows)


def _shadow_families(farm: Farm, figures: Figures) -> Iterator[Metric]:
    """What is tried beside the policies, if anything is."""
    tried = [
        (pool, (pool.name, config.live, config.name))
        for pool in farm.pools
        for config in shadows_of(pool.config, farm.config.collector)
    ]
    if are_told(farm):
        rows = (
            ((*key, member.name), figures.shadow_answers.get((*key, member.full_name), 0))
            for pool, key in tried
            for member in pool.members
        )
        text = "Members that would have been handed out by what is tried in the shadow of a policy"
        yield from families("lbdns_shadow_answers", "counter", text, (*_SHADOW, "member"), rows)
    diverted = [(key, figures.diverted.get(key, 0)) for _, key in tried]
    text = "Hand-outs that would have gone to another member"
    yield from families("lbdns_shadow_diverted", "counter", text, _SHADOW, diverted)


def server_families(farm: Farm, figures: Figures, failing_open: Mapping[str, bool]) -> Iterator[Metric]:
    """What an operator watches besides. A count without a line in the table above is told under its own name."""
    for key in (*_NAMED, *sorted(figures.named.keys() - _NAMED.keys())):
        name, text = _NAMED.get(key, (f"lbdns_dns_{key}", key.replace("_", " ").capitalize()))
        yield family(name, "counter", text, figures.named.get(key, 0))
    text = "TCP connections that are open"
    yield family("lbdns_dns_tcp_connections", "gauge", text, figures.levels.get("tcp_open", 0))
    pools = [pool.name for pool in farm.pools]
    rows: list[Row] = [((pool,), failing_open.get(pool, False)) for pool in pools]
    yield from families("lbdns_pool_fail_open", "gauge", "1 while a pool fails open", ("pool",), rows)
    rows = [((pool,), figures.fail_open_ms.get(pool, 0) / 1000) for pool in pools]
    yield from families("lbdns_pool_fail_open_seconds", "counter", "How long the pool failed open", ("pool",), rows)
    yield from lag_families(figures.lag, figures.lag_us)


def follower_families(connected: bool) -> Iterator[Metric]:
    """Of who follows a collector elsewhere."""
    yield family("lbdns_collector_connected", "gauge", "1 while the collector that is followed is heard", connected)
