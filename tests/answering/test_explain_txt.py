"""Tests of ``explain.NAME TXT``: permitted clients receive explanations of all pool names; others receive NXDOMAIN."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Final

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest

from lbdns.answering.responder import Client, Responder
from lbdns.config.client_limit_sections import ExplainConfig
from lbdns.model.farm import Farm
from tests.answering.asking import TCP, UDP, make_query, read
from tests.answering.configured import at_work
from tests.answering.explaining import ELSEWHERE, FARM, HERE, answering, ask, told
from tests.answering.farms import HOBBIT, MEMBERS, hobbit, make_farm, pool

pytestmark = pytest.mark.usefixtures("both_planes")

ROOT: Final = "$TTL 60\n@ SOA ns. host. 1 60 60 60 60\n@ NS ns.\nns A 127.0.0.1\nsam A 127.0.0.2\n"


def negative(message: dns.message.Message) -> bool:
    (soa,) = message.authority
    return not message.answer and soa.rdtype == dns.rdatatype.SOA


# Which names


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("explain.best.hobbit", "web/best"),
        ("EXPLAIN.Best.hobBIT", "web/best"),
        ("explain.round.robin.hobbit", "web/round.robin"),
        ("explain.weighted.hobbit", "web/weighted"),
        ("explain.hobbit", "apex/@"),
        ("explain.at.hobbit", "apex/at"),
    ],
)
@pytest.mark.parametrize("transport", [UDP, TCP])
@pytest.mark.parametrize("rtype", ["TXT", "ANY"])
def test_names_of_pools_are_explained(name: str, owner: str, transport: int, rtype: str) -> None:
    message = ask(answering(), name, rtype, transport=transport, payload=1232)
    assert message.rcode() == dns.rcode.NOERROR
    assert message.flags & dns.flags.AA
    assert not message.flags & dns.flags.TC
    texts = told(message)
    assert texts[0].startswith(f"next=gandalf (because) policy=best pool={owner} ")
    assert [text.split()[0] for text in texts[1:]] == list(MEMBERS)
    assert message.edns == 0


def test_the_root() -> None:
    farm = make_farm({"": ROOT}, [pool("top", "", ["sam"], names={"@": "best", "low": "best"})])
    for name, owner in (("explain.", "@"), ("explain.low.", "low")):
        assert f"pool=top/{owner}" in told(ask(answering(farm), name))[0]


OTHERS = ["explain.gandalf.hobbit", "explain.robin.hobbit", "explain.explain.best.hobbit", "a.explain.best.hobbit"]


@pytest.mark.parametrize("name", [*OTHERS, "explained.best.hobbit", "explainbest.hobbit"])
def test_other_names_are_not(name: str) -> None:
    message = ask(answering(), name)
    assert message.rcode() == dns.rcode.NXDOMAIN
    assert negative(message)


@pytest.mark.parametrize("rtype", ["A", "AAAA", "CNAME", "NS", "SOA", "HTTPS", "DS", "TYPE65280"])
def test_other_types_are_not_there(rtype: str) -> None:
    message = ask(answering(), "explain.best.hobbit", rtype)
    assert message.rcode() == dns.rcode.NOERROR
    assert message.flags & dns.flags.AA
    assert negative(message)
    assert message.authority[0].ttl == 300


@pytest.mark.parametrize(
    ("record", "rdata"),
    [("explain.best TXT mine", '"mine"'), ("x.explain.best TXT mine", None), ("explain.best A 127.0.0.5", None)],
)
def test_a_name_of_the_zone_file_wins(record: str, rdata: str | None) -> None:
    message = ask(answering(hobbit(more=f"{record}\n")), "explain.best.hobbit")
    assert message.rcode() == dns.rcode.NOERROR
    assert [str(rdata) for rrset in message.answer for rdata in rrset] == ([rdata] if rdata else [])


def test_a_name_of_a_pool_wins() -> None:
    farm = hobbit(pool(names={"best": "best", "explain.best": "best"}))
    assert ask(answering(farm), "explain.best.hobbit").answer[0].rdtype == dns.rdatatype.CNAME
    assert "web/explain.best" in told(ask(answering(farm), "explain.explain.best.hobbit"))[0]


def test_a_zone_within_the_zone_wins() -> None:
    farm = make_farm({"hobbit": HOBBIT, "best.hobbit": HOBBIT}, [pool()])
    assert ask(answering(farm), "explain.best.hobbit").rcode() == dns.rcode.NXDOMAIN
    farm = make_farm({"hobbit": HOBBIT, "explain.best.hobbit": HOBBIT}, [pool()])
    assert negative(ask(answering(farm), "explain.best.hobbit"))


def test_a_name_that_is_too_long_is_nobodys() -> None:
    label = "x" * 63
    long = f"{label}.{label}.{label}.{'y' * 54}"
    farm = hobbit(pool(names={long: "best"}))
    responder = answering(farm)
    assert ask(responder, f"{long}.hobbit", "A").answer
    short = f"{label}.{label}.{label}.{'y' * 46}"
    assert told(ask(answering(hobbit(pool(names={short: "best"}))), f"explain.{short}.hobbit", payload=4096))


# Who may know


WILD = "* TXT anything\n*.best TXT else\n"


@pytest.mark.parametrize("more", ["", WILD])
@pytest.mark.parametrize("rtype", ["TXT", "A", "ANY", "AXFR"])
@pytest.mark.parametrize("transport", [UDP, TCP])
def test_for_others_there_is_nothing_of_it(more: str, rtype: str, transport: int) -> None:
    farm = hobbit(more=more)
    for name in ("explain.best.hobbit", "explain.hobbit"):
        query = make_query(name, rtype, payload=1232)
        without = at_work(farm, ()).respond(query, ELSEWHERE, transport)
        assert answering(farm).respond(query, ELSEWHERE, transport) == without
        assert isinstance(without, bytes)
        if more and rtype == "TXT":
            assert read(without).answer
        elif rtype == "TXT":
            assert read(without).rcode() == dns.rcode.NXDOMAIN


def test_wildcards_are_for_others() -> None:
    responder = answering(hobbit(more=WILD))
    for _ in range(2):
        assert "web/best" in told(ask(responder, "explain.best.hobbit"))[0]
        assert told_elsewhere(responder) == "else"


def told_elsewhere(responder: Responder) -> str:
    (rdata,) = ask(responder, "explain.best.hobbit", client=ELSEWHERE).answer[0]
    return str(rdata.strings[0].decode())


def allowing(*networks: str, farm: Farm = FARM) -> Farm:
    allow = tuple(map(ipaddress.ip_network, networks))
    return replace(farm, config=replace(farm.config, explain=ExplainConfig(allow)))


@pytest.mark.parametrize(
    ("networks", "client", "may"),
    [
        (None, ("::1", 4000, 0, 0), True),
        (None, ("127.9.9.9", 4000), True),
        (None, ("::2", 4000, 0, 0), False),
        (("192.0.2.0/24",), ELSEWHERE, True),
        (("192.0.2.0/24",), HERE, False),
        (("fe80::/10",), ("fe80::5%eth0", 4000, 0, 2), True),
        ((), HERE, False),
    ],
)
def test_who_may_know_is_configured(networks: tuple[str, ...] | None, client: Client, may: bool) -> None:
    farm = FARM if networks is None else allowing(*networks)
    message = ask(answering(farm), "explain.best.hobbit", client=client)
    assert message.rcode() == (dns.rcode.NOERROR if may else dns.rcode.NXDOMAIN)


def test_a_reload_changes_names_and_who_may_know() -> None:
    responder = answering()
    assert told(ask(responder, "explain.best.hobbit"))
    responder.use(at_work(allowing("192.0.2.0/24", farm=hobbit(pool(names={"new": "best"}))), ()).table)
    assert ask(responder, "explain.best.hobbit", client=ELSEWHERE).rcode() == dns.rcode.NXDOMAIN
    assert ask(responder, "explain.new.hobbit").rcode() == dns.rcode.NXDOMAIN
    assert told(ask(responder, "explain.new.hobbit", client=ELSEWHERE))


def test_without_an_explainer_there_is_no_such_name() -> None:
    assert ask(at_work(FARM, ()), "explain.best.hobbit").rcode() == dns.rcode.NXDOMAIN


@pytest.mark.parametrize("rclass", ["CH", "HS", "ANY", "NONE"])
def test_other_classes_are_refused(rclass: str) -> None:
    query = dns.message.make_query("explain.best.hobbit", "TXT", rclass)
    response = read(answering().respond(query.to_wire(), HERE))
    assert response.rcode() == dns.rcode.REFUSED
    assert not response.answer
