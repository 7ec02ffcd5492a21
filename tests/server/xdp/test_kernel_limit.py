"""Checks that the kernel limits responses per client network as the sockets do."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Final, TypeVar

import pytest

from lbdns.answering.rate_limiter import ALL, RateLimiter
from lbdns.answering.responder import Responder
from lbdns.config.client_limit_sections import RateLimitConfig
from lbdns.server.xdp.kernel_answers import KernelAnswers
from lbdns.server.xdp.table_layouts import LimitRules
from tests.answering.asking import client, make_query
from tests.answering.test_responder_fast_path import fixed
from tests.needs import needs
from tests.server.xdp.kernel_of_responder import DROP, PAYLOAD, TX, kernel, publish, run, truncated_variants
from tests.server.xdp.packets import Datagram, answer_frame

pytestmark = needs(xdp=True, root=True)

T = TypeVar("T")
LIMIT: Final = 3
SLIP: Final = 2
RULES: Final = LimitRules(LIMIT, SLIP, 24, 56)
NAMES: Final = (
    "best.hobbit",
    "round.robin.hobbit",
    "bilbo.hobbit",
    "ns.hobbit",
    "mail.hobbit",
    "frodo.hobbit",
    "hobbit",
)
QUERY: Final = make_query(NAMES[0], recurse=True, payload=1232)


@pytest.fixture(scope="module")
def responder() -> Responder:
    warm = fixed()
    for name in NAMES:
        for _ in range(2):
            warm.respond(make_query(name, recurse=True, payload=1232), client())
    return warm


def in_one_second(action: Callable[[], T]) -> T:
    """Return the result of an action within one second of the kernel's clock; repeat it if that second has ended."""
    while True:
        begin = int(monotonic())
        result = action()
        if int(monotonic()) == begin:
            return result


def verdicts(responder: Responder, rules: LimitRules, queries: list[Datagram]) -> list[str]:
    """Return what becomes of queries that arrive in one second: a, t or d for answered, truncated or dropped."""

    def send() -> list[str]:
        with kernel(rules) as answers:
            publish(answers, responder, (1,))
            found = [_outcome(answers, query) for query in queries]
            totals = answers.totals()
            assert (totals["rate_limit_dropped"], totals["rate_limit_cut"]) == (found.count("d"), found.count("t"))
            assert sum(answers.question_counts().values()) == found.count("a")
            return found

    return in_one_second(send)


def _outcome(answers: KernelAnswers, query: Datagram) -> str:
    verdict, frame = run(answers, query)
    if verdict == DROP:
        return "d"
    assert verdict == TX
    head, tail = truncated_variants()[3]
    cut = query.payload[:2] + head + query.payload[12:-11] + tail
    return "t" if frame == answer_frame(query, cut) else "a"


def by_sockets(rules: LimitRules, queries: list[Datagram]) -> list[str]:
    """Return what the sockets' rate limiter decides for the same queries."""
    limiter = RateLimiter(
        RateLimitConfig(rules.limit, rules.slip, rules.ipv4_prefix, rules.ipv6_prefix, tuple(rules.exempt))
    )
    limiter.tick(0.0)
    found = []
    for query in queries:
        host = str(ipaddress.ip_address(query.addresses[0]))
        over = limiter.count(host, query.payload[12:-11])
        found.append("a" if not over else "d" if limiter.drops(over, host) else "t")
    return found


ONE: Final = Datagram(QUERY)
SIX: Final = Datagram(QUERY, 6)
SEVERAL_NAMES: Final = [
    Datagram(make_query(name, recurse=True, payload=1232)) for _ in range(LIMIT) for name in NAMES
]  # fmt: skip
TRAFFIC: Final = {
    "one client": [ONE] * 10,
    "two clients of one network": [ONE, replace(ONE, source="198.51.100.200")] * 5,
    "two networks": [ONE, replace(ONE, source="198.51.101.7")] * 5,
    "IPv6": [SIX] * 10,
    "one IPv6 network": [SIX, replace(SIX, source="2001:db8:1:ff::9")] * 5,
    "two IPv6 networks": [SIX, replace(SIX, source="2001:db8:1:100::9")] * 5,
    "several names": SEVERAL_NAMES,
}


@pytest.mark.parametrize("what", TRAFFIC)
@pytest.mark.parametrize("slip", [0, 1, SLIP])
def test_the_kernel_decides_as_the_sockets_do(responder: Responder, what: str, slip: int) -> None:
    rules = replace(RULES, slip=slip)
    found = verdicts(responder, rules, TRAFFIC[what])
    assert found == by_sockets(rules, TRAFFIC[what])
    assert "a" in found
    if what not in ("two networks", "two IPv6 networks"):
        assert set(found) != {"a"}


def test_a_network_has_a_limit_across_all_kinds() -> None:
    assert len(NAMES) > ALL, "several names exceed it"


@pytest.mark.parametrize("prefix", [0, 8, 25, 32])
def test_prefixes_of_any_length(responder: Responder, prefix: int) -> None:
    rules = replace(RULES, ipv4_prefix=prefix, ipv6_prefix=4 * prefix)
    for base, others in (
        (ONE, ("198.51.100.200", "198.0.0.1", "12.1.1.1")),
        (SIX, ("2001:db8:1:2:3:4:5:7", "3fff::1")),
    ):
        queries = [base, *(replace(base, source=other) for other in others)] * 6
        assert verdicts(responder, rules, queries) == by_sockets(rules, queries)


@pytest.mark.parametrize("network", ["198.51.0.0/16", "198.51.100.7/32", "0.0.0.0/0"])
def test_an_exempt_network_has_no_limit(responder: Responder, network: str) -> None:
    rules = replace(RULES, exempt=(ipaddress.ip_network(network), ipaddress.ip_network("fd00::/8")))
    queries = [ONE, SIX, replace(SIX, source="fd00::1")] * 8
    found = verdicts(responder, rules, queries)
    assert found == by_sockets(rules, queries)
    assert found.count("a") == 8 + LIMIT + 8


def test_no_limit(responder: Responder) -> None:
    assert set(verdicts(responder, replace(RULES, limit=0), [ONE] * 30)) == {"a"}


def test_payload_is_that_of_the_truncated_responses(responder: Responder) -> None:
    assert responder.table.farm.config.server.payload == PAYLOAD
