"""Exports the DNS server's counters as Prometheus metric families, which are built at each scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import HistogramMetricFamily, Metric

from lbdns.answering.dns_constants import TYPE_NAMES, Rcode
from lbdns.counting.answer_counters import AnswerCounters
from lbdns.counting.response_times import cumulative
from lbdns.model.farm import Farm
from lbdns.planning.shadow import shadows_of
from lbdns.planning.site_plans import SitePlans
from lbdns_collector.prometheus.exposition import FamilyRow, families, family
from lbdns_collector.prometheus.member_families import has_member_series
from lbdns_collector.prometheus.status_families import LOG_LINES_LOST, lag_families, snapshot_families

#: Name of a counter -> the metric's name and help
_NAMED: Final[Mapping[str, tuple[str, str]]] = {
    "fail_opens": ("lbdns_fail_opens", "Number of times a pool started to fail open"),
    "unsent": ("lbdns_dns_responses_unsent", "Responses that the kernel refused to send"),
    "failed": ("lbdns_dns_queries_failed", "Queries dropped because of an internal error"),
    "udp_overflows": ("lbdns_dns_udp_overflows", "Queries that the kernel dropped because the receive buffer was full"),
    "tcp_accepted": ("lbdns_dns_tcp_accepted", "TCP connections accepted"),
    "tcp_closed_early": ("lbdns_dns_tcp_closed_early", "TCP connections closed because of a limit"),
    "shed": ("lbdns_dns_queries_shed", "Uncommon queries dropped under overload so that common queries are answered"),
    "rate_limit_dropped": ("lbdns_dns_rate_limit_dropped", "Responses dropped by the rate limit"),
    "rate_limit_cut": ("lbdns_dns_rate_limit_cut", "Responses truncated by the rate limit; clients retry over TCP"),
    "too_long_cut": ("lbdns_dns_too_long_cut", "Responses truncated because they were too long for UDP"),
    "repeated": ("lbdns_dns_repeated", "Retransmitted queries that were answered with the same member as before"),
    "coherent": (
        "lbdns_dns_coherent",
        "Queries whose answers named the member already selected for the client's lookup",
    ),
    "kernel_answers": ("lbdns_dns_kernel_answers", "Queries that the kernel answered"),
    "query_log_lost": ("lbdns_query_log_lost", "Query log lines that could not be written"),
    "log_lines_lost": LOG_LINES_LOST,
    "worker_restarts": ("lbdns_worker_restarts", "Worker processes that died and were replaced"),
}
_SHADOW: Final = ("pool", "policy", "shadow")


def dns_families(farm: Farm, counters: AnswerCounters) -> Iterator[Metric]:
    """Yield the metric families for requests, responses, durations and selections."""
    requests: Counter[tuple[str, str, str]] = Counter()
    responses: Counter[tuple[str, str]] = Counter()
    for (zone, qtype, transport, rcode), count in counters.asked.items():
        # Unknown types share one label, so that clients cannot create new ones
        requests[zone, TYPE_NAMES.get(qtype, "other"), transport] += count
        responses[zone, Rcode(rcode).name] += count
    labels = "zone", "type", "transport"
    yield from families("lbdns_dns_requests", "counter", "Queries answered", labels, requests.items())
    yield from families("lbdns_dns_responses", "counter", "Responses sent", ("zone", "rcode"), responses.items())
    histogram = HistogramMetricFamily(
        "lbdns_dns_request_duration_seconds", "Time from reading a query to sending its response"
    )
    histogram.add_metric((), cumulative(counters.durations), counters.seconds)
    yield histogram
    yield from _answer_families(farm, counters)
    yield from _shadow_families(farm, counters)


def _answer_families(farm: Farm, counters: AnswerCounters) -> Iterator[Metric]:
    selected = Counter[tuple[str, str]]({(p.name, policy): 0 for p in farm.pools for policy in p.owners.values()})
    for (pool, policy, _), count in counters.answers.items():
        if (pool, policy) in selected:
            selected[pool, policy] += count
    yield from families("lbdns_pool_answers", "counter", "Members selected", ("pool", "policy"), selected.items())
    if has_member_series(farm):
        rows = (
            ((pool.name, policy, member.name), counters.answers.get((pool.name, policy, member.full_name), 0))
            for pool in farm.pools
            for policy in dict.fromkeys(pool.owners.values())
            for member in pool.selectable
        )
        yield from families("lbdns_answers", "counter", "Members selected", ("pool", "policy", "member"), rows)


def _shadow_families(farm: Farm, counters: AnswerCounters) -> Iterator[Metric]:
    tried = [
        (pool, (pool.name, config.live, config.name))
        for pool in farm.pools
        for config in shadows_of(pool.config, farm.config.collector)
    ]
    if has_member_series(farm):
        rows = (
            ((*key, member.name), counters.shadow_answers.get((*key, member.full_name), 0))
            for pool, key in tried
            for member in pool.members
        )
        text = "Number of times that a shadow policy would have selected the member"
        yield from families("lbdns_shadow_answers", "counter", text, (*_SHADOW, "member"), rows)
    diverted = [(key, counters.diverted.get(key, 0)) for _, key in tried]
    text = "Selections for which a shadow policy would have selected another member"
    yield from families("lbdns_shadow_diverted", "counter", text, _SHADOW, diverted)


def server_families(
    farm: Farm, counters: AnswerCounters, failing_open: Mapping[str, bool], backup_shares: Mapping[str, float]
) -> Iterator[Metric]:
    """Yield the metric families for all other counters. Counters without an entry in ``_NAMED`` keep their names."""
    for key in (*_NAMED, *sorted(counters.named.keys() - _NAMED.keys())):
        name, text = _NAMED.get(key, (f"lbdns_dns_{key}", key.replace("_", " ").capitalize()))
        yield family(name, "counter", text, counters.named.get(key, 0))
    text = "Open TCP connections"
    yield family("lbdns_dns_tcp_connections", "gauge", text, counters.levels.get("tcp_open", 0))
    pools = [pool.name for pool in farm.pools]
    rows: list[FamilyRow] = [((pool,), failing_open.get(pool, False)) for pool in pools]
    yield from families("lbdns_pool_fail_open", "gauge", "1 while a pool fails open", ("pool",), rows)
    rows = [((pool,), share) for pool, share in backup_shares.items()]
    text = "Share of the answers for the pool that name members of its backup"
    yield from families("lbdns_pool_backup_share", "gauge", text, ("pool",), rows)
    rows = [((pool,), counters.fail_open_ms.get(pool, 0) / 1000) for pool in pools]
    text = "Total time during which the pool failed open"
    yield from families("lbdns_pool_fail_open_seconds", "counter", text, ("pool",), rows)
    yield from lag_families(counters.lag, counters.lag_us)


def site_families(farm: Farm, counters: AnswerCounters, plans: Callable[[str], SitePlans | None]) -> Iterator[Metric]:
    """Yield the metric families of pools with sites; ``plans`` returns the plans of a pool's sites."""
    pools = [(pool, pool.sites, found) for pool in farm.pools if pool.sites and (found := plans(pool.name))]
    if not pools:
        return
    keys = [
        (p.name, " ".join(order), site) for p, sites, _ in pools for order in sites.orders for site in sites.members
    ]
    rows: list[FamilyRow] = [(key, counters.site_answers.get(key, 0)) for key in keys]
    text = "Answers by the order in which the client uses the sites, and the site of the member"
    yield from families("lbdns_site_answers", "counter", text, ("pool", "order", "site"), rows)
    uses = [(pool.name, use) for pool, _, found in pools for use in found.sites]
    rows = [((pool, use.name), use.hosts) for pool, use in uses]
    yield from families("lbdns_site_usable_members", "gauge", "Members that may be selected", ("pool", "site"), rows)
    rows = [((pool, use.name), use.utilization) for pool, use in uses if use.utilization is not None]
    text = "The part of the site's capacity in use, above 1 if requests wait"
    yield from families("lbdns_site_utilization", "gauge", text, ("pool", "site"), rows)


def bus_follower_families(connected: bool, counts: Mapping[str, int]) -> Iterator[Metric]:
    """Yield the metric families of a server that follows the collectors on a bus."""
    yield family("lbdns_bus_connected", "gauge", "1 while this server is connected to the bus", connected)
    yield from snapshot_families(counts)


def sharing_families(shared: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield the metric families of overrides that servers share, given their state in the status document."""
    text = "1 while this server shares its overrides with the other servers; 0 while it is cut off"
    yield family("lbdns_shared_overrides_connected", "gauge", text, shared["connected"])
    text = "Orders that are not stored on the bus yet"
    yield family("lbdns_shared_overrides_pending", "gauge", text, shared["pending"])
    rows = [((result,), count) for result, count in shared["counts"].items()]
    text = "Records of shared overrides, by result"
    yield from families("lbdns_shared_override_records", "counter", text, ("result",), rows)


def answer_sharing_families(shared: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield the metric families of answers that servers share, given their state in the status document."""
    text = "1 while this server shares its answers with the other servers; 0 while it is cut off"
    yield family("lbdns_shared_answers_connected", "gauge", text, shared["connected"])
    text = "Other servers whose answers are counted"
    yield family("lbdns_shared_answers_servers", "gauge", text, len(shared["servers"]))
    rows = [((result,), count) for result, count in shared["counts"].items()]
    text = "Messages about the answers of other servers, by result"
    yield from families("lbdns_shared_answers_messages", "counter", text, ("result",), rows)


def follower_families(connected: bool) -> Iterator[Metric]:
    """Yield the metric family for the state of the connection to another collector."""
    text = "1 while this server is connected to the collector that it follows"
    yield family("lbdns_collector_connected", "gauge", text, connected)
