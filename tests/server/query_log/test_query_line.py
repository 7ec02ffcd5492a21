"""Tests of the content of a query log line."""

from __future__ import annotations

import json
import random
from typing import Any

import dns.rdatatype
import pytest

from lbdns.model.farm import Farm
from lbdns.server.query_log.query_line import MemberNames, line_of
from tests.answering.asking import TCP, make_query, make_responder, read
from tests.answering.farms import hobbit, pool
from tests.server.clients import with_ids
from tests.server.query_log.query_samples import QUERY, answered, sample_of


def lined(farm: Farm, query: bytes, response: bytes | None, **changes: Any) -> dict[str, Any]:
    line = line_of(sample_of(query, response, **changes), MemberNames(farm), 42)
    assert line is not None
    assert line.endswith("\n")
    assert line.count("\n") == 1
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_line_says_it_all() -> None:
    query = make_query("BEST.hobbit")
    response = answered(hobbit(), query)
    assert lined(hobbit(), query, response) == {
        "time": 1000.25, "client": "192.0.2.7", "port": 5353, "transport": "udp", "name": "best.hobbit", "type": "A",
        "class": "IN", "rcode": "NOERROR", "bytes": len(response), "pool": "web", "member": "bilbo", "pid": 42,
        "us": 12.3,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["best.hobbit", "www.hobbit", "far.hobbit"])
@pytest.mark.parametrize("rtype", ["A", "AAAA", "CNAME", "ANY"])
def test_the_member_is_the_one_in_the_answer(name: str, rtype: str) -> None:
    query = make_query(name, rtype)
    response = answered(hobbit(), query)
    aliases = [rrset[0].target.to_text() for rrset in read(response).answer if rrset.rdtype == dns.rdatatype.CNAME]
    member = next((alias.removesuffix(".hobbit.") for alias in aliases if alias[:5] in ("bilbo", "frodo")), None)
    assert lined(hobbit(), query, response)["member"] == member
    assert member or (name != "best.hobbit" and rtype in ("CNAME", "ANY")), "an alias asked for itself leads to no pool"


def test_the_member_of_a_pool_that_answers_with_addresses() -> None:
    farm = hobbit(pool(answer="address"))
    for name, rtype, members in (
        ("round.robin.hobbit", "A", {"bilbo", "frodo", "gandalf"}),
        ("round.robin.hobbit", "AAAA", {None, "frodo", "gandalf"}),
    ):
        responder, found = make_responder(farm), set()
        for query in with_ids(make_query(name, rtype), range(3)):
            response = responder.respond(query, ("192.0.2.7", query[1]))
            assert isinstance(response, bytes)
            found.add(lined(farm, query, response)["member"])
        assert found == members


@pytest.mark.parametrize(
    ("name", "rtype", "rcode"),
    [("nowhere.hobbit", "A", "NXDOMAIN"), ("example.org", "MX", "REFUSED"), ("bilbo.hobbit", "A", "NOERROR")],
)
def test_what_names_no_member(name: str, rtype: str, rcode: str) -> None:
    query = make_query(name, rtype, payload=1232)
    line = lined(hobbit(), query, answered(hobbit(), query))
    assert (line["rcode"], line["pool"], line["member"]) == (rcode, None, None)


def test_unusual_queries() -> None:
    farm = hobbit()
    odd = make_query('a\\000b\\200\\"c.hobbit', "TYPE65280")
    line = lined(farm, odd, answered(farm, odd))
    assert (line["name"], line["type"]) == ('a\\000b\\200\\"c.hobbit', "TYPE65280")
    chaos = make_query("version.bind", "TXT")[:-2] + b"\0\3"
    assert lined(farm, chaos, answered(farm, chaos))["class"] == "CH"
    other = make_query("version.bind", "TXT")[:-2] + b"\0\7"
    assert lined(farm, other, answered(farm, other))["class"] == "CLASS7"
    newer = make_query("best.hobbit", payload=1232, version=1)
    assert lined(farm, newer, answered(farm, newer))["rcode"] == "BADVERS"
    broken = QUERY + b"x"
    line = lined(farm, broken, answered(farm, broken))
    assert (line["name"], line["rcode"]) == ("round.robin.hobbit", "FORMERR")


def test_no_answer_and_a_transfer() -> None:
    line = lined(hobbit(), QUERY, None)
    assert (line["rcode"], line["bytes"], line["member"]) == (None, 0, None)
    line = lined(hobbit(), make_query("hobbit", "AXFR"), None, transport=TCP, transferred=True, seconds=None)
    assert (line["transport"], line["rcode"], line["bytes"], line["us"]) == ("tcp", "NOERROR", None, None)


@pytest.mark.parametrize("query", [b"", b"short", QUERY[:2] + b"\x80" + QUERY[3:]])
def test_what_is_no_query_has_no_line(query: bytes) -> None:
    assert line_of(sample_of(query, None), MemberNames(hobbit()), 42) is None


def test_responses_of_others_can_be_anything() -> None:
    names = MemberNames(hobbit())
    response = answered(hobbit(), QUERY)
    chance = random.Random(7)
    for _ in range(3000):
        mangled = bytearray(response[: chance.randrange(12, len(response) + 1)])
        for _ in range(chance.randrange(6)):
            mangled[chance.randrange(4, len(mangled))] = chance.choice((0, 1, 12, 63, 0xC0, 0xFF))
        assert line_of(sample_of(QUERY, bytes(mangled)), names, 42)
    looping = response[:12] + QUERY[12:] + b"\xc0" + bytes((len(QUERY),)) + b"\0\1\0\1\0\0\0\0\0\4abcd"
    assert line_of(sample_of(QUERY, looping), names, 42)
