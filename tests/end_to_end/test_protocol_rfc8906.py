"""Runs every test in RFC 8906, section 8, with the dig commands given there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lbdns_shared.endpoint import Endpoint
from tests.end_to_end.protocol import PLANES, dig, serving
from tests.needs import needs

pytestmark = needs(programs=("dig",))


@pytest.fixture(scope="module", params=PLANES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    folder: Path = tmp_path_factory.mktemp("rfc8906")
    with serving(folder, plane=request.param, server='identity = "ns1.shire"') as (_, endpoint):
        yield endpoint


@dataclass(frozen=True)
class Case:
    """A query and the result that section 8 expects: with an SOA record if ``soa``, and EDNS version 0 if ``edns``."""

    asked: str
    status: str = "NOERROR"
    soa: bool = True
    aa: bool = True
    edns: bool = False
    flags: frozenset[str] = frozenset()  # of the header besides qr and aa


def basic(asked: str, *flags: str, soa: bool = True) -> Case:
    return Case(f"+noedns {asked}", soa=soa, flags=frozenset(flags))


def edns(asked: str) -> Case:
    return Case(f"+edns=0 {asked}", edns=True)


def version_1(asked: str) -> Case:
    return Case(f"+edns=1 +noednsneg {asked}", status="BADVERS", soa=False, aa=False, edns=True)


CASES = {
    "8.1.1 configured for the zone": basic("+noad +norec soa hobbit"),
    "8.1.2 an unknown type": basic("+noad +norec type1000 hobbit", soa=False),
    "8.1.3.1 CD": basic("+noad +norec +cd soa hobbit"),
    "8.1.3.2 AD": basic("+norec +ad soa hobbit"),
    "8.1.3.3 the reserved bit": basic("+noad +norec +zflag soa hobbit"),
    "8.1.3.4 recursion desired": basic("+noad +rec soa hobbit", "rd"),
    "8.1.4 an unknown opcode": Case(
        "+noedns +noad +opcode=15 +norec +header-only", status="NOTIMP", soa=False, aa=False
    ),
    "8.1.5 TCP": basic("+noad +norec +tcp soa hobbit"),
    "8.2.1 minimal EDNS": edns("+nocookie +noad +norec soa hobbit"),
    "8.2.2 version negotiation": version_1("+nocookie +noad +norec soa hobbit"),
    "8.2.3 an unknown option": edns("+nocookie +noad +norec +ednsopt=100 soa hobbit"),
    "8.2.4 an unknown flag": edns("+nocookie +noad +norec +ednsflags=0x40 soa hobbit"),
    "8.2.5 version negotiation, an unknown flag": version_1("+nocookie +noad +norec +ednsflags=0x40 soa hobbit"),
    "8.2.6 version negotiation, an unknown option": version_1("+nocookie +noad +norec +ednsopt=100 soa hobbit"),
    "8.2.8 DO": edns("+nocookie +noad +norec +dnssec soa hobbit"),
    "8.2.9 version negotiation, DO": version_1("+nocookie +noad +norec +dnssec soa hobbit"),
    "8.2.10 several options": edns("+noad +norec +cookie +nsid +expire +subnet=0.0.0.0/0 soa hobbit"),
}


@pytest.mark.parametrize("over", ["UDP", "TCP"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_section_8(case: Case, over: str, server: Endpoint) -> None:
    arguments = case.asked.split() + (["+tcp"] if over == "TCP" and "+tcp" not in case.asked else [])
    reply = dig(server, *arguments)
    assert reply.status == case.status
    assert reply.flags == {"qr"} | ({"aa"} if case.aa else set()) | case.flags, "and no MBZ, tc, ra, ad, cd"
    assert [rtype for _, rtype, _ in reply.answer] == (["SOA"] if case.soa else [])
    assert reply.edns.startswith("version: 0, flags:") is case.edns
    assert "MBZ" not in reply.edns
    assert "100" not in reply.options
    assert ("flags: do;" in reply.edns) is ("+dnssec" in case.asked), "DO is copied (RFC 3225)"
    assert "WARNING" not in reply.text.replace("WARNING: recursion requested but not available", "")
    if "8.1.4" in case.asked:
        assert reply.counts == {"QUERY": 0, "ANSWER": 0, "AUTHORITY": 0, "ADDITIONAL": 0}


def test_8_2_7_a_truncated_response(server: Endpoint) -> None:
    asked = ("+nocookie", "+norec", "+noad", "+dnssec", "+bufsize=512", "+ignore", "dnskey", "hobbit")
    reply = dig(server, *asked)
    assert (reply.status, reply.answer) == ("NOERROR", [])
    assert reply.flags == {"qr", "aa", "tc"}
    assert reply.edns.startswith("version: 0, flags: do;")
    whole = dig(server, *(word for word in asked if word != "+ignore"))
    assert "Truncated, retrying in TCP mode" in whole.text
    assert (whole.status, len(whole.answer)) == ("NOERROR", 2)
    assert "tc" not in whole.flags


#: NOTIFY (4) is answered where secondaries are concerned, and has tests there
@pytest.mark.parametrize("opcode", [1, 2, 3, *range(5, 16)])
def test_every_other_opcode(opcode: int, server: Endpoint) -> None:
    for asked in (("+header-only",), ("soa", "hobbit", "+rec", "+cd")):
        reply = dig(server, f"+opcode={opcode}", *asked)
        assert reply.status == "NOTIMP"
        assert reply.flags == {"qr"}
        assert reply.counts["ANSWER"] == reply.counts["AUTHORITY"] == 0
