"""Tests of zone answers: dig, kdig and drill receive the same answers to a table of questions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lbdns_shared.endpoint import Endpoint
from tests.end_to_end.protocol import PLANES, dig, drill, kdig, serving
from tests.needs import needs

pytestmark = needs(programs=("dig", "kdig", "drill"))
SOA = "hobbit. 300 SOA ns.hobbit. hostmaster.hobbit. 7 3600 900 604800 300"

Line = str


@pytest.fixture(scope="module", params=PLANES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with serving(tmp_path_factory.mktemp("answers"), plane=request.param) as (_, endpoint):
        yield endpoint


@dataclass(frozen=True)
class Case:
    """A question and the expected answer; records have the form OWNER TTL TYPE RDATA."""

    name: str
    rtype: str
    answer: tuple[Line, ...] = ()
    authority: tuple[Line, ...] = ()
    additional: tuple[Line, ...] = ()
    status: str = "NOERROR"
    aa: bool = True


def nodata(name: str, rtype: str = "A", *answer: Line) -> Case:
    return Case(name, rtype, answer, (SOA,))


def refused(name: str, rtype: str = "A") -> Case:
    return Case(name, rtype, status="REFUSED", aa=False)


SUB = ("sub.hobbit. 3600 NS ns.sub.hobbit.", "sub.hobbit. 3600 NS ns.elsewhere.example.")
DS = f"sub.hobbit. 3600 DS 1 8 2 {'0' * 56}{'0' * 8}"
MAIL = ("mail.hobbit. 3600 A 127.0.0.2",)
GLUE = ("ns.sub.hobbit. 3600 A 127.0.0.80", "ns.sub.hobbit. 3600 AAAA ::80")

CASES = {
    "a name": Case("bilbo.hobbit", "A", ("bilbo.hobbit. 3600 A 127.0.0.16",)),
    "the apex": Case("hobbit", "MX", ("hobbit. 3600 MX 10 mail.hobbit.",), (), MAIL),
    "NXDOMAIN, TTL the smaller of two (RFC 2308)": Case("nowhere.hobbit", "A", authority=(SOA,), status="NXDOMAIN"),
    "NODATA": nodata("bilbo.hobbit", "MX"),
    "an empty non-terminal (RFC 8020)": nodata("ent.below.hobbit"),
    "an empty non-terminal above a pool's name": nodata("robin.hobbit"),
    "below a name that is not": Case("x.nowhere.hobbit", "A", authority=(SOA,), status="NXDOMAIN"),
    "a wildcard (RFC 4592)": Case("any.wild.hobbit", "A", ("any.wild.hobbit. 300 A 127.0.0.77",)),
    "a wildcard, several labels": Case("x.y.wild.hobbit", "A", ("x.y.wild.hobbit. 300 A 127.0.0.77",)),
    "a wildcard lacks the type": nodata("any.wild.hobbit", "MX"),
    "a wildcard does not cover what is there": nodata("a.wild.hobbit"),
    "nor what is below it": Case("z.a.wild.hobbit", "A", authority=(SOA,), status="NXDOMAIN"),
    "the wildcard itself": Case("*.wild.hobbit", "TXT", ('*.wild.hobbit. 300 TXT "any"',)),
    "a wildcard that is an alias": Case(
        "x.alias.hobbit", "A", ("x.alias.hobbit. 3600 CNAME bilbo.hobbit.", "bilbo.hobbit. 3600 A 127.0.0.16")
    ),
    "an alias asked for": Case("far.hobbit", "CNAME", ("far.hobbit. 3600 CNAME www.hobbit.",)),
    "a chain to nowhere": Case(
        "dangling.hobbit", "A", ("dangling.hobbit. 3600 CNAME nowhere.hobbit.",), (SOA,), status="NXDOMAIN"
    ),
    "a loop is cut": Case(
        "loop1.hobbit", "A", ("loop1.hobbit. 3600 CNAME loop2.hobbit.", "loop2.hobbit. 3600 CNAME loop1.hobbit.")
    ),
    "an alias of itself": Case("self.hobbit", "A", ("self.hobbit. 3600 CNAME self.hobbit.",)),
    "a target outside is left alone": Case("out.hobbit", "A", ("out.hobbit. 3600 CNAME www.example.org.",)),
    "DNAME (RFC 6672)": Case(
        "a.old.hobbit",
        "A",
        (
            "old.hobbit. 3600 DNAME new.hobbit.",
            "a.old.hobbit. 3600 CNAME a.new.hobbit.",
            "a.new.hobbit. 3600 A 127.0.0.81",
        ),
    ),
    "the DNAME itself": Case("old.hobbit", "DNAME", ("old.hobbit. 3600 DNAME new.hobbit.",)),
    "the owner of a DNAME": nodata("old.hobbit", "A"),
    "a delegation": Case("sub.hobbit", "A", (), SUB, GLUE, aa=False),
    "below a delegation": Case("x.y.sub.hobbit", "TXT", (), SUB, GLUE, aa=False),
    "glue is not ours to answer with": Case("ns.sub.hobbit", "A", (), SUB, GLUE, aa=False),
    "without glue": Case("x.bare.hobbit", "A", (), ("bare.hobbit. 3600 NS ns.elsewhere.example.",), aa=False),
    "DS at the cut": Case("sub.hobbit", "DS", (DS,)),
    "no DS at the cut": nodata("bare.hobbit", "DS"),
    "DS at the apex": nodata("hobbit", "DS"),
    "an alias below a delegation": Case("into.hobbit", "A", ("into.hobbit. 3600 CNAME host.sub.hobbit.",), SUB, GLUE),
    "an unknown type (RFC 3597)": Case("odd.hobbit", "TYPE65280", ("odd.hobbit. 3600 TYPE65280 \\# 2 ABCD",)),
    "an unknown type that is not there": nodata("odd.hobbit", "TYPE65281"),
    "ANY is one RRset (RFC 8482)": Case("frodo.hobbit", "ANY", ("frodo.hobbit. 3600 A 127.0.0.17",)),
    "ANY of an alias": Case("far.hobbit", "ANY", ("far.hobbit. 3600 CNAME www.hobbit.",)),
    "outside every zone": refused("www.example.org"),
    "the root": refused(".", "NS"),
    "a name that ends alike": refused("xhobbit"),
}


def lines(text: str) -> list[Line]:
    """Return records in a common form, because drill and kdig print hexadecimal digits and tabs differently."""
    found = []
    for line in text.splitlines():
        if line and not line.startswith(";"):
            owner, ttl, rclass, rtype, rdata = line.split(None, 4)
            assert rclass == "IN"
            if rtype in ("DS", "TYPE65280"):
                words = rdata.upper().split()
                head = 3 if rtype == "DS" else 2
                rdata = " ".join([*words[:head], "".join(words[head:])])
            found.append(f"{owner} {ttl} {rtype} {' '.join(rdata.split())}")
    return found


def expected(case: Case) -> list[Line]:
    return [*case.answer, *case.authority, *case.additional]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_three_clients_are_told_the_same(case: Case, server: Endpoint) -> None:
    by_dig = dig(server, "+norec", "+nocookie", case.name, case.rtype)
    assert by_dig.status == case.status
    assert by_dig.flags == ({"qr", "aa"} if case.aa else {"qr"})
    counts = {"QUERY": 1, "ANSWER": len(case.answer), "AUTHORITY": len(case.authority)}
    assert by_dig.counts == {**counts, "ADDITIONAL": len(case.additional) + 1}
    assert lines(by_dig.text) == expected(case)

    by_kdig = kdig(server, "+norec", "+noall", "+header", "+answer", "+authority", "+additional", case.name, case.rtype)
    assert f"status: {case.status}" in by_kdig
    assert lines(by_kdig) == expected(case)

    by_drill = drill(server, "-o", "rd", case.name, case.rtype)
    assert f"rcode: {case.status}" in by_drill
    assert ("aa" in re.findall(r"flags: ([\w ]*)", by_drill)[0].split()) is case.aa
    assert lines(by_drill) == expected(case)


@pytest.mark.parametrize("over", ["+notcp", "+tcp"])
@pytest.mark.parametrize("name", ["BEST.hobbit", "bEsT.HoBBiT", "RoUnD.rObIn.HOBBIT", "BiLbO.hObBiT", "nOwHeRe.HoBbIt"])
def test_the_question_comes_back_in_its_own_letter_case(server: Endpoint, name: str, over: str) -> None:
    for _ in range(2):
        reply = dig(server, name, over)
        assert f";{name}." in reply.text
        assert "mismatch" not in reply.text
        assert all(owner == f"{name}." for owner, rtype, _ in reply.answer[:1])


def test_pools_by_alias(server: Endpoint) -> None:
    for name, links in (("www.hobbit", 1), ("far.hobbit", 2)):
        reply = dig(server, name)
        assert [rtype for _, rtype, _ in reply.answer][: links + 1] == ["CNAME"] * (links + 1)
        assert reply.answer[-1][1] == "A"


@pytest.mark.parametrize("rtype", ["MAILA", "MAILB", "TKEY"])
def test_what_is_no_type_of_records_is_refused(server: Endpoint, rtype: str) -> None:
    for name in ("hobbit", "best.hobbit", "nowhere.hobbit"):
        assert dig(server, "-t", rtype, "-q", name).status == "REFUSED"


def test_many_questions_on_one_connection(server: Endpoint) -> None:
    names = ["bilbo.hobbit", "frodo.hobbit", "nowhere.hobbit", "big.hobbit"]
    said = kdig(server, "+tcp", "+keepopen", *names)
    assert re.findall(r"status: (\w+)", said) == ["NOERROR", "NOERROR", "NXDOMAIN", "NOERROR"]
    assert re.findall(r"^;; (\S+)\s+IN\s+A$", said, re.M) == [f"{name}." for name in names]
