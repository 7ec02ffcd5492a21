"""Tests of answers across zones: the longest zone, delegations with glue, DS records, and addresses of hosts."""

from __future__ import annotations

import dns.flags
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

from lbdns.answering.responder import Responder
from tests.answering.answer_lines import SOA
from tests.answering.asking import TCP, UDP, ask, client, lines, make_query, make_responder, read, short
from tests.answering.farms import HOBBIT, MEMBERS, hobbit, make_farm, pool

# Several zones

CHILD = "$TTL 1h\n@ SOA ns.hobbit. hostmaster.hobbit. 1 1h 15m 1w 5m\n@ NS ns.hobbit.\nx A 127.1.0.1\ny A 127.1.0.2\n"
GRANDCHILD = CHILD.replace("127.1", "127.2")


def family() -> Responder:
    zones = {"hobbit": HOBBIT + "deleg NS ns.hobbit.\n", "sub.hobbit": CHILD, "b.a.sub.hobbit": GRANDCHILD}
    pools = (pool(), pool("low", "sub.hobbit", ("x", "y"), {"best": "round_robin", "deep.best": "best"}))
    return make_responder(make_farm(zones, pools))


def test_the_longest_zone_answers() -> None:
    responder = family()
    assert short(ask(responder, "x.sub.hobbit").answer) == [("x.sub.hobbit.", "A", "127.1.0.1")]
    assert short(ask(responder, "x.b.a.sub.hobbit").answer) == [("x.b.a.sub.hobbit.", "A", "127.2.0.1")]
    assert ask(responder, "x.sub.hobbit").flags & dns.flags.AA
    assert short(ask(responder, "best.sub.hobbit").answer)[0] == ("best.sub.hobbit.", "CNAME", "x.sub.hobbit.")
    assert short(ask(responder, "best.hobbit").answer)[0] == ("best.hobbit.", "CNAME", "bilbo.hobbit.")
    assert ask(responder, "zzz.sub.hobbit").authority[0].name == dns.name.from_text("sub.hobbit")
    assert ask(responder, "a.sub.hobbit").rcode() == dns.rcode.NXDOMAIN, "not delegated there"


def test_ds_at_a_childs_apex_is_the_parents() -> None:
    message = ask(family(), "sub.hobbit", "DS")
    assert short(message.answer) == [("sub.hobbit.", "DS", "1 8 2 " + "00" * 32)]
    message = ask(family(), "b.a.sub.hobbit", "DS")
    assert message.authority[0].name == dns.name.from_text("sub.hobbit"), "the nearest zone above"
    # Without the parent: the child says that it has none (RFC 4035 section 3.1.4.1)
    message = ask(family(), "hobbit", "DS")
    assert (message.rcode(), lines(message.authority)) == (dns.rcode.NOERROR, [SOA])


def test_a_reverse_zone() -> None:
    responder = make_responder(hobbit())
    assert short(ask(responder, "16.0.0.127.in-addr.arpa", "PTR").answer) == [
        ("16.0.0.127.in-addr.arpa.", "PTR", "bilbo.hobbit.")
    ]
    assert ask(responder, "17.0.0.127.in-addr.arpa", "PTR").rcode() == dns.rcode.NXDOMAIN


def test_a_delegation_has_no_aa_and_brings_glue() -> None:
    message = ask(make_responder(hobbit()), "host.sub.hobbit")
    assert message.flags == dns.flags.QR
    assert short(message.authority)[0] == ("sub.hobbit.", "NS", "ns.sub.hobbit.")
    assert short(message.additional) == [("ns.sub.hobbit.", "A", "127.0.0.80"), ("ns.sub.hobbit.", "AAAA", "::80")]


@pytest.mark.parametrize("name", ["sub.hobbit", "host.sub.hobbit"])
def test_only_a_client_that_sets_do_gets_the_ds_records_of_a_delegation(name: str) -> None:
    responder = make_responder(hobbit())
    for _ in range(2):  # written, and precompiled
        for payload, dnssec_ok in ((None, False), (1232, False), (1232, True)):
            query = make_query(name, payload=payload, dnssec_ok=dnssec_ok)
            message = read(responder.respond(query, client()))
            assert [rrset.rdtype for rrset in message.authority] == [dns.rdatatype.NS, dns.rdatatype.DS][
                : 1 + dnssec_ok
            ]
            assert not message.flags & dns.flags.AA


MANY_HOSTS = "".join(f"many MX 10 m{i}\nm{i} A 127.3.0.{i}\nm{i} AAAA ::3:{i}\n" for i in range(16))


@pytest.mark.parametrize(
    ("payload", "transport", "most"), [(None, UDP, 512), (512, UDP, 512), (1232, UDP, 1232), (None, TCP, 65_535)]
)
def test_addresses_of_hosts_are_in_the_answer_as_far_as_they_fit(
    payload: int | None, transport: int, most: int
) -> None:
    responder = make_responder(hobbit(more=MANY_HOSTS))
    for _ in range(3):
        wire = responder.respond(make_query("many.hobbit", "MX", payload=payload), client(), transport)
        message = read(wire)
        assert not message.flags & dns.flags.TC
        assert len(message.answer[0]) == 16
        assert isinstance(wire, bytes)
        found = short(message.additional)
        whole = [(f"m{i}.hobbit.", rtype) for i in range(16) for rtype in ("A", "AAAA")]
        assert [(owner, rtype) for owner, rtype, _ in found] == whole[: len(found)]
        assert len(wire) <= most
        assert len(found) == len(whole) or len(wire) > most - 28, "no room for another record"
        assert (len(found) == len(whole)) == (most >= 1232)


def test_a_response_with_the_addresses_of_its_hosts_is_precompiled() -> None:
    responder = make_responder(hobbit())
    messages = [read(responder.respond(make_query("hobbit", "MX"), client())) for _ in range(2)]
    entry = responder.table.entries[make_query("hobbit", "MX")[12:]]
    assert any(entry.variants)
    assert [short(message.additional) for message in messages] == [[("mail.hobbit.", "A", "127.0.0.2")]] * 2


def test_a_member_answer_has_the_addresses_of_the_members_hosts() -> None:
    responder = make_responder(hobbit(more="".join(f"{member} MX 10 mail\n" for member in MEMBERS)))
    message = ask(responder, "best.hobbit", "MX")
    assert [rrset.rdtype for rrset in message.answer] == [dns.rdatatype.CNAME, dns.rdatatype.MX]
    assert short(message.additional) == [("mail.hobbit.", "A", "127.0.0.2")]


def test_glue_that_does_not_fit_makes_a_referral_too_long() -> None:
    servers = "".join(f"cut NS n{i}.cut\nn{i}.cut A 127.3.0.{i}\nn{i}.cut AAAA ::3:{i}\n" for i in range(12))
    responder = make_responder(hobbit(more=servers))
    assert ask(responder, "x.cut.hobbit").flags & dns.flags.TC
    assert len(ask(responder, "x.cut.hobbit", transport=TCP).additional) == 24
    # The servers' addresses are no glue if they are in this zone's own data
    others = "".join(f"cut NS n{i}\nn{i} A 127.3.0.{i}\nn{i} AAAA ::3:{i}\n" for i in range(12))
    message = ask(make_responder(hobbit(more=others)), "x.cut.hobbit")
    assert not message.flags & dns.flags.TC
    assert 0 < len(message.additional) < 24


def test_yxdomain() -> None:
    # "old" becomes "new" of the same length: a target that is longer is needed
    more = "grow DNAME " + "x" * 63 + ".hobbit.\n"
    name = ".".join(["y" * 63] * 3 + ["y" * 30]) + ".grow.hobbit"
    message = ask(make_responder(hobbit(pool(), more=more)), name)
    assert message.rcode() == dns.rcode.YXDOMAIN
    assert [rtype for _, rtype, _ in short(message.answer)] == ["DNAME"]
