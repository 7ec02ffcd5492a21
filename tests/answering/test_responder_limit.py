"""Tests of rate limits and repeated queries: which queries share a limit, and which queries advance a rotation."""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import replace
from itertools import product

import dns.edns
import dns.flags
import dns.rcode
import pytest

from lbdns.answering.responder import Client, Responder
from lbdns.config import RateLimitConfig
from lbdns.policies.plan import Plan
from tests.answering.asking import TCP, UDP, make_query, read
from tests.answering.configured import NOW, WALL, at_work, configured
from tests.answering.farms import hobbit

pytestmark = pytest.mark.usefixtures("both_planes")

LIMIT = 5  # responses per second
COOKIE = dns.edns.OptionType.COOKIE


def limited(slip: int = 2, per_second: int = LIMIT) -> Responder:
    return at_work(configured(rate_limit=RateLimitConfig(per_second, slip)))


def ask(responder: Responder, query: bytes, who: Client = ("192.0.2.1", 1024), transport: int = UDP) -> str:
    """Return the outcome of a query: "nothing", "cut", or the content of the response."""
    wire = responder.respond(query, who, transport)
    if wire is None:
        return "nothing"
    message = read(wire)
    if message.flags & dns.flags.TC:
        assert message.answer == message.authority == []
        return "cut"
    return dns.rcode.to_text(message.rcode())


def flood(responder: Responder, queries: list[bytes], host: str = "192.0.2.1") -> list[str]:
    """Return the outcomes of the queries, each sent from a different port."""
    return [ask(responder, query, (host, 1024 + number)) for number, query in enumerate(queries)]


def one_answer(name: str = "round.robin.hobbit", rtype: str = "A", times: int = 12) -> list[bytes]:
    return [make_query(name, rtype)] * times


ALIKE = {
    "a pool's name": (one_answer(), "NOERROR"),
    "a name of the zone": (one_answer("bilbo.hobbit"), "NOERROR"),
    "in any letter case": (
        [make_query(name) for name in ("bilbo.hobbit", "BILBO.hobbit", "bIlbO.HobBit")] * 4,
        "NOERROR",
    ),
    "asked in many ways": (
        [make_query("bilbo.hobbit", recurse=bool(i % 2), payload=512 + i, ident=i) for i in range(12)],
        "NOERROR",
    ),
    "names under a wildcard": ([make_query(f"x{i}.wild.hobbit") for i in range(12)], "NOERROR"),
    "names that are not": ([make_query(f"x{i}.hobbit") for i in range(12)], "NXDOMAIN"),
    "names that are not, and types": ([make_query(f"x{i}.ns.hobbit", f"TYPE{i + 300}") for i in range(12)], "NXDOMAIN"),
    "types that are not": ([make_query("bilbo.hobbit", f"TYPE{i + 300}") for i in range(12)], "NOERROR"),
    "names below a delegation": ([make_query(f"x{i}.sub.hobbit") for i in range(12)], "NOERROR"),
    "names of nobody": ([make_query(f"x{i}.example") for i in range(12)], "REFUSED"),
    "malformed": ([bytes((0, i)) + bytes(10) for i in range(12)], "FORMERR"),
    "other opcodes": ([bytes((0, i, 0x10)) + bytes(9) for i in range(12)], "NOTIMP"),
    "another version": ([make_query(f"x{i}.hobbit", version=1 + i, payload=1232) for i in range(12)], "BADVERS"),
    "class CHAOS": ([make_query(f"x{i}.bind")[:-1] + b"\3" for i in range(12)], "REFUSED"),
}


@pytest.mark.parametrize(("queries", "said"), ALIKE.values(), ids=ALIKE)
def test_what_is_alike_is_limited_together(queries: list[bytes], said: str) -> None:
    responder = limited()
    assert flood(responder, queries) == [said] * LIMIT + ["nothing", "cut"] * 3 + ["nothing"]
    assert responder.counters()["rate_limit_dropped"] == 4
    assert responder.counters()["rate_limit_cut"] == 3


def test_what_is_not_alike_is_limited_apart() -> None:
    responder = limited()
    for queries, said in (ALIKE["a pool's name"], ALIKE["a name of the zone"], ALIKE["names that are not"]):
        assert flood(responder, queries)[:LIMIT] == [said] * LIMIT


def test_other_networks_are_not_concerned() -> None:
    responder = limited()
    for host in ("192.0.2.1", "192.0.3.1", "2001:db8::1", "2001:db8:0:100::1"):
        assert flood(responder, one_answer(), host).count("NOERROR") == LIMIT
    for host in ("192.0.2.255", "2001:db8:0:ff::1"):
        assert flood(responder, one_answer(), host).count("NOERROR") == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_loopback_is_exempt(host: str) -> None:
    assert flood(limited(), one_answer(), host) == ["NOERROR"] * 12


def test_networks_can_be_exempt() -> None:
    rules = RateLimitConfig(LIMIT, exempt=(ipaddress.ip_network("192.0.2.0/24"),))
    responder = at_work(configured(rate_limit=rules))
    assert flood(responder, one_answer()) == ["NOERROR"] * 12
    assert flood(responder, one_answer(), "127.0.0.1").count("NOERROR") == LIMIT


@pytest.mark.parametrize(
    ("slip", "over"), [(0, ["nothing"] * 7), (1, ["cut"] * 7), (3, ["nothing", "nothing", "cut"] * 2)]
)
def test_slip(slip: int, over: list[str]) -> None:
    assert flood(limited(slip), one_answer())[LIMIT:][: len(over)] == over


def test_no_limit() -> None:
    assert flood(limited(per_second=0), one_answer()) == ["NOERROR"] * 12


def test_a_second_later_everybody_is_answered_again() -> None:
    responder = limited()
    for seconds in (0.0, 1.0, 2.5):
        responder.tick(NOW + seconds, WALL + seconds)
        assert flood(responder, one_answer()).count("NOERROR") == LIMIT
        responder.tick(NOW + seconds + 0.99, WALL + seconds + 0.99)
        assert flood(responder, one_answer()).count("NOERROR") == 0


def test_tcp_is_not_limited() -> None:
    responder = limited()
    flood(responder, one_answer())
    assert ask(responder, make_query("round.robin.hobbit"), transport=TCP) == "NOERROR"


@pytest.mark.parametrize("name", ["round.robin.hobbit", "bilbo.hobbit", "x.wild.hobbit", "nowhere.hobbit", "x.example"])
def test_a_valid_cookie_is_exempt(name: str) -> None:
    responder, who = limited(), ("192.0.2.1", 1024)

    def query(cookie: bytes) -> bytes:
        return make_query(name, options=[dns.edns.GenericOption(COOKIE, cookie)], payload=1232)

    (option,) = read(responder.respond(query(b"12345678"), who)).options
    valid = option.to_wire() or b""
    said = ask(responder, query(valid))
    assert said != "cut"
    for _ in range(3):
        flood(responder, [make_query(name)] * 12)
        assert [ask(responder, query(valid)) for _ in range(9)] == [said] * 9
    # Anybody can send one that isn't: it is a flood like any other
    for cookie in (b"12345678", b"12345678" + bytes(16)):
        assert set(flood(responder, [query(cookie)] * 12)) == {"nothing", "cut"}


def test_who_is_cut_learns_the_cookie_that_helps() -> None:
    responder = limited(slip=1)
    flood(responder, one_answer())
    for name in ("round.robin.hobbit", "nowhere.hobbit"):
        query = make_query(name, options=[dns.edns.GenericOption(COOKIE, b"12345678")], payload=1232)
        flood(responder, [query] * 12)
        message = read(responder.respond(query, ("192.0.2.1", 9)))
        assert message.flags & dns.flags.TC
        assert len(message.options[0].to_wire() or b"") == 24


@pytest.mark.parametrize("payload", [None, 1232, 1231])
def test_a_cut_response_is_the_same_from_a_cold_and_from_a_warm_table(payload: int | None) -> None:
    query, who = make_query("best.hobbit", payload=payload), ("192.0.2.1", 1024)
    warm, cold = limited(slip=1, per_second=1), limited(slip=1, per_second=1)
    for number in range(3):
        warm.respond(query, ("192.0.2.1", number))
        cold.respond_slowly(query, ("192.0.2.1", number))
    assert warm.respond(query, who) == cold.respond_slowly(query, who)


def test_a_cut_response_is_no_longer_than_its_query() -> None:
    responder = limited(slip=1, per_second=1)
    for query in (
        make_query("best.hobbit"),
        make_query("best.hobbit", payload=1232),
        make_query("x.hobbit", payload=1231),
    ):
        responder.respond(query, ("192.0.2.1", 1))
        for _ in range(3):
            wire = responder.respond(query, ("192.0.2.1", 2))
            assert isinstance(wire, bytes)
            assert len(wire) == len(query)


NAMES = ["best", "www", "far", "gandalf", "big", "huge", "x.wild", "nowhere", "sub", "x.sub", "a.old", "robin"]
FOREIGN = ["hobbit", "16.0.0.127.in-addr.arpa", "example.org", "."]
TYPES = ["A", "AAAA", "ANY", "TXT", "NS", "MX", "SOA", "DNSKEY", "DS", "TYPE4711"]


def test_nobody_unknown_is_sent_more_than_512_bytes() -> None:
    """Checks limits on amplification by forged queries: on the size of each response, and on the mean size ratio."""
    responder = at_work(configured())
    sent = brought = 0
    for name, rtype, payload in product(
        [*(f"{name}.hobbit" for name in NAMES), *FOREIGN], TYPES, (None, 512, 1232, 65535)
    ):
        query = make_query(name, rtype, payload=payload, dnssec_ok=payload == 65535)
        wire = responder.respond(query, ("192.0.2.1", 1024))
        assert isinstance(wire, bytes)
        assert len(wire) <= 512
        sent, brought = sent + len(query), brought + len(wire)
    assert brought / sent < 3


# Rotations and charges


def totals(responder: Responder, policy: str = "round_robin") -> list[int]:
    return responder.table.cursors["web", policy].totals()


@pytest.mark.parametrize("slip", [0, 1, 2])
@pytest.mark.parametrize("payload", [None, 1232, 1231])
def test_a_limited_query_does_not_move_a_rotation(slip: int, payload: int | None) -> None:
    responder = limited(slip)
    queries = [make_query("round.robin.hobbit", payload=payload)] * 50
    assert flood(responder, queries).count("NOERROR") == LIMIT
    assert sum(totals(responder)) == LIMIT
    # The next one goes on where the last answer was
    responder.tick(NOW + 1, WALL + 1)
    message = read(responder.respond(queries[0], ("192.0.2.1", 7)))
    assert str(message.answer[-1].name) == "gandalf.hobbit."
    assert sum(totals(responder)) == LIMIT + 1


#: Ways of asking that take the short way, that take the long one, and of which the name is never kept
REPEATED = {
    "plain": make_query("round.robin.hobbit"),
    "EDNS": make_query("round.robin.hobbit", payload=1232),
    "an unusual size": make_query("round.robin.hobbit", payload=1231),
    "an unusual type": make_query("round.robin.hobbit", "TYPE4711"),
    "a cookie": make_query("round.robin.hobbit", options=[dns.edns.GenericOption(COOKIE, b"12345678")], payload=1232),
}


@pytest.mark.parametrize("query", REPEATED.values(), ids=REPEATED)
def test_a_repeated_query_gets_what_it_got_and_moves_nothing(query: bytes) -> None:
    responder, others = at_work(configured()), iter(range(2000, 9000))
    for who in (("192.0.2.1", 1024), ("2001:db8::1", 1024, 0, 0)):
        first = responder.respond(query, who)
        before = totals(responder)
        assert [responder.respond(query, who) for _ in range(5)] == [first] * 5
        assert totals(responder) == before
        responder.respond(query, ("192.0.2.1", next(others)))
        assert totals(responder) != before
        assert responder.respond(query, who) == first, "also when others have asked in between"
    assert responder.counters()["repeated"] == 12


@pytest.mark.parametrize("query", REPEATED.values(), ids=REPEATED)
def test_what_differs_in_anything_is_no_repeated_query(query: bytes) -> None:
    responder = at_work(configured())
    for number, (sent, who) in enumerate(
        [
            (query, ("192.0.2.1", 1024)),
            (query, ("192.0.2.1", 1025)),
            (query, ("192.0.2.2", 1024)),
            (b"xx" + query[2:], ("192.0.2.1", 1024)),
            (query.replace(b"robin", b"rObin"), ("192.0.2.1", 1024)),
        ],
        1,
    ):
        responder.respond(sent, who)
        assert sum(totals(responder)) == number
    assert responder.counters()["repeated"] == 0


def test_after_six_seconds_it_is_a_new_query() -> None:
    responder, query, who = at_work(configured()), REPEATED["plain"], ("192.0.2.1", 1024)
    for seconds, handed in [(0.0, 1), (1.0, 1), (5.9, 1), (6.1, 2), (7.0, 2), (12.2, 3)]:
        responder.tick(NOW + seconds, WALL + seconds)
        responder.respond(query, who)
        assert sum(totals(responder)) == handed, seconds


def test_over_tcp_every_query_is_a_new_one() -> None:
    responder = at_work(configured())
    for _ in range(6):
        responder.respond(REPEATED["plain"], ("192.0.2.1", 1024), TCP)
    assert totals(responder) == [2, 2, 2]


def member(responder: Responder, query: bytes, who: Client) -> str:
    return str(read(responder.respond(query, who)).answer[-1].name)


@pytest.mark.parametrize("query", [REPEATED["plain"], REPEATED["an unusual size"]], ids=["short way", "long way"])
def test_a_member_that_has_left_the_plan_is_not_given_again(query: bytes) -> None:
    responder, who = at_work(configured()), ("192.0.2.1", 1024)
    handout = responder.table.cursors["web", "round_robin"]
    assert member(responder, query, who) == "bilbo.hobbit."
    handout.set_plan(Plan((2, 1)))
    assert member(responder, query, who) == "gandalf.hobbit."
    handout.set_plan(Plan((1, 2)))
    assert member(responder, query, who) == "gandalf.hobbit.", "it is still in the plan, wherever"
    assert totals(responder) == [1, 0, 1]


def test_a_repeated_query_that_was_cut_is_cut_again_and_moves_nothing() -> None:
    many = "".join(f"frodo A 127.1.0.{number}\n" for number in range(60))
    responder = at_work(configured(hobbit(more=many)))
    query, who = REPEATED["plain"], ("192.0.2.1", 1024)
    assert member(responder, query, ("192.0.2.1", 1)) == "bilbo.hobbit."
    for _ in range(3):
        assert ask(responder, query, who) == "cut", "frodo is due"
    assert totals(responder) == [1, 0, 0]


def test_repeated_queries_count_for_the_rate_limit() -> None:
    responder = limited()
    assert Counter(ask(responder, REPEATED["plain"]) for _ in range(15)) == {"NOERROR": 5, "nothing": 5, "cut": 5}
    assert sum(totals(responder)) == 1


# Reloads


def test_over_a_reload_counters_go_on_and_the_new_limit_holds() -> None:
    responder = limited()
    flood(responder, one_answer())
    ask(responder, REPEATED["plain"], ("198.51.100.1", 1))
    ask(responder, REPEATED["plain"], ("198.51.100.1", 1))
    before = responder.counters()
    assert before["rate_limit_dropped"] == 4
    assert before["rate_limit_cut"] == 3
    assert before["repeated"] == 1
    config = responder.table.farm.config
    farm = replace(responder.table.farm, config=replace(config, rate_limit=RateLimitConfig(2)))
    new = at_work(farm).table
    new.take_over(responder.table)
    responder.use(new)
    assert responder.counters() == before
    assert flood(responder, one_answer()).count("NOERROR") == 2
    assert responder.counters()["rate_limit_dropped"] == 4 + 5


def test_a_limit_is_shared_among_processes() -> None:
    responder = limited(per_second=10)
    responder.use(responder.table, share=4)
    assert flood(responder, one_answer()).count("NOERROR") == 3
