"""Tests of the server's Prometheus families, parsed by prometheus_client."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from lbdns.answering.dns_constants import TCP
from lbdns.bus.bus_connection import BusConnection
from lbdns.bus.signed_message import MessageKeys
from lbdns.counting.answer_counters import AnswerCounters, count_answers
from lbdns.counting.response_times import ResponseTimes
from lbdns.events.event_log import EventLog
from lbdns.model.overrides import Override
from lbdns.model.shared_orders import NO_ORDERS
from lbdns.server.answer_sharing.answer_messages import PURPOSE
from lbdns.server.answer_sharing.heard_servers import RESULTS, HeardServers
from lbdns.server.control.override_sharing import OverrideSharing
from lbdns.server.server_families import (
    answer_sharing_families,
    dns_families,
    follower_families,
    server_families,
    sharing_families,
)
from tests.answering.asking import ask, client, make_query, make_responder
from tests.answering.farms import hobbit
from tests.collector.collector_fixtures import KEY

POOLS = [pool.name for pool in hobbit().pools]
Sample = tuple[str, frozenset[tuple[str, str]]]


def scraped(families: Iterable[Metric]) -> dict[Sample, float]:
    """Return the samples that a scraper reads, as a mapping from sample name and labels to value."""
    found = list(families)

    class Once(Collector):
        def collect(self) -> Iterable[Metric]:
            return found

    registry = CollectorRegistry()
    registry.register(Once())
    text = generate_latest(registry).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def sample(name: str, **labels: str) -> Sample:
    return name, frozenset(labels.items())


def test_requests_responses_and_answers() -> None:
    responder = make_responder(hobbit())
    for _ in range(4):
        ask(responder, "round.robin.hobbit")
    ask(responder, "best.hobbit", "AAAA", TCP)
    ask(responder, "nobody.hobbit", "TYPE4711")
    ask(responder, "bilbo.hobbit", "TYPE4712")
    ask(responder, "example.org")
    responder.respond(make_query("best.hobbit", payload=512, version=1), client())
    responder.respond(b"\0" * 12, client())
    found = scraped(dns_families(responder.table.farm, count_answers(responder.table, ResponseTimes(), {})))
    requests = "lbdns_dns_requests_total"
    assert found[sample(requests, zone="hobbit", type="A", transport="udp")] == 4
    assert found[sample(requests, zone="hobbit", type="AAAA", transport="tcp")] == 1
    assert found[sample(requests, zone="hobbit", type="other", transport="udp")] == 2
    assert found[sample(requests, zone="", type="A", transport="udp")] == 2
    responses = {labels: value for (name, labels), value in found.items() if name == "lbdns_dns_responses_total"}
    assert {(dict(labels)["zone"], dict(labels)["rcode"]): value for labels, value in responses.items()} == {
        ("hobbit", "NOERROR"): 6,
        ("hobbit", "NXDOMAIN"): 1,
        ("", "REFUSED"): 1,
        ("", "BADVERS"): 1,
        ("", "FORMERR"): 1,
    }
    answers = {
        (dict(labels)["policy"], dict(labels)["member"]): value
        for (name, labels), value in found.items()
        if name == "lbdns_answers_total"
    }
    assert answers == {
        **{(policy, member): 0 for policy in ("best", "weighted") for member in ("bilbo", "frodo", "gandalf")},
        ("best", "bilbo"): 1,
        ("round_robin", "bilbo"): 2,
        ("round_robin", "frodo"): 1,
        ("round_robin", "gandalf"): 1,
    }
    assert {dict(labels)["pool"] for name, labels in found if name == "lbdns_answers_total"} == {"web"}


def test_durations_are_a_histogram() -> None:
    durations = ResponseTimes()
    durations.add(10, 10 * 4e-6)
    table = make_responder(hobbit()).table
    found = scraped(dns_families(table.farm, count_answers(table, durations, {})))
    name = "lbdns_dns_request_duration_seconds"
    assert found[sample(f"{name}_count")] == 10
    assert found[sample(f"{name}_sum")] == pytest.approx(4e-5)
    assert found[sample(f"{name}_bucket", le="5e-06")] == 10
    assert found[sample(f"{name}_bucket", le="2e-06")] == 0
    assert found[sample(f"{name}_bucket", le="+Inf")] == 10


def test_server_figures() -> None:
    named = {"fail_opens": 2, "unsent": 3, "failed": 4, "worker_restarts": 5, "rate_limit_dropped": 6, "new": 7}
    figures = AnswerCounters(
        named={**named, "udp_overflows": 8, "tcp_accepted": 9},
        levels={"tcp_open": 4},
        fail_open_ms={"web": 2500, "gone": 1},
        lag={("worker", 200): 3},
        lag_us={"worker": 90},
    )
    found = scraped(server_families(hobbit(), figures, {"web": True}, {"web": 0.25}))
    lag = {name: value for name, value in found.items() if name[0].startswith("lbdns_event_loop_lag")}
    assert lag.pop(sample("lbdns_event_loop_lag_seconds_count", process="worker")) == 3
    assert {key: value for key, value in found.items() if "lag_seconds" not in key[0]} == {
        sample("lbdns_fail_opens_total"): 2,
        sample("lbdns_pool_backup_share", pool="web"): 0.25,
        sample("lbdns_dns_responses_unsent_total"): 3,
        sample("lbdns_dns_queries_failed_total"): 4,
        sample("lbdns_dns_udp_overflows_total"): 8,
        sample("lbdns_dns_tcp_accepted_total"): 9,
        sample("lbdns_dns_tcp_connections"): 4,
        sample("lbdns_dns_tcp_closed_early_total"): 0,
        sample("lbdns_worker_restarts_total"): 5,
        sample("lbdns_dns_rate_limit_dropped_total"): 6,
        sample("lbdns_dns_rate_limit_cut_total"): 0,
        sample("lbdns_dns_too_long_cut_total"): 0,
        sample("lbdns_dns_repeated_total"): 0,
        sample("lbdns_dns_coherent_total"): 0,
        sample("lbdns_dns_queries_shed_total"): 0,
        sample("lbdns_dns_kernel_answers_total"): 0,
        sample("lbdns_query_log_lost_total"): 0,
        sample("lbdns_log_lines_lost_total"): 0,
        sample("lbdns_dns_new_total"): 7,
        **{sample("lbdns_pool_fail_open", pool=name): float(name == "web") for name in POOLS},
        **{
            sample("lbdns_pool_fail_open_seconds_total", pool=name): 2.5 if name == "web" else 0.0 for name in POOLS
        },
    }  # fmt: skip


def test_following() -> None:
    for connected in (True, False):
        assert scraped(follower_families(connected)) == {sample("lbdns_collector_connected"): connected}


def test_shared_overrides() -> None:
    sharing = OverrideSharing(BusConnection(EventLog()), (KEY,), EventLog())
    sharing.adopt(NO_ORDERS, [Override("drain", "frodo.hobbit", by="root")])
    sharing.counts["replay"] += 2
    found = scraped(sharing_families(sharing.document()))
    assert found[sample("lbdns_shared_overrides_connected")] == 0
    assert found[sample("lbdns_shared_overrides_pending")] == 1
    assert found[sample("lbdns_shared_override_records_total", result="replay")] == 2
    assert found[sample("lbdns_shared_override_records_total", result="bad_tag")] == 0


def test_shared_answers() -> None:
    servers = HeardServers(MessageKeys((KEY,), PURPOSE), 1)
    servers.counts["replay"] += 2
    document = {"connected": True, "problem": "", "servers": [{}, {}], "counts": servers.counts}
    assert scraped(answer_sharing_families(document)) == {
        sample("lbdns_shared_answers_connected"): 1,
        sample("lbdns_shared_answers_servers"): 2,
        **{sample("lbdns_shared_answers_messages_total", result=result): 0 for result in RESULTS},
        sample("lbdns_shared_answers_messages_total", result="replay"): 2,
    }


def test_a_removed_member_has_no_metrics_until_it_comes_back() -> None:
    table = make_responder(hobbit()).table
    figures = AnswerCounters(answers={("web", "best", "sam.hobbit"): 4, ("web", "best", "frodo.hobbit"): 2})
    found = scraped(dns_families(table.farm, figures))
    assert found[sample("lbdns_answers_total", pool="web", policy="best", member="frodo")] == 2
    assert not any("sam" in dict(labels).values() for _, labels in found)


def test_many_members_have_metrics_by_pool_only() -> None:
    farm = hobbit()
    few = replace(farm, config=replace(farm.config, web=replace(farm.config.web, max_member_series=1)))
    figures = AnswerCounters(
        answers={
            ("web", "best", "frodo.hobbit"): 2, ("web", "best", "gone.hobbit"): 3, ("gone", "best", "frodo.hobbit"): 4,
        }
    )  # fmt: skip
    assert any(name == "lbdns_answers_total" for name, _ in scraped(dns_families(farm, figures)))
    for one_by_one in (farm, few):
        found = scraped(dns_families(one_by_one, figures))
        assert found[sample("lbdns_pool_answers_total", pool="web", policy="best")] == 5
        assert found[sample("lbdns_pool_answers_total", pool="web", policy="weighted")] == 0
        assert not any(dict(labels).get("pool") == "gone" for _, labels in found)
    assert not any("member" in dict(labels) for _, labels in found)
