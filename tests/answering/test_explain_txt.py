"""``explain.NAME TXT``: told to whom it is for, of each name of a pool, and for all others there is no such name."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdatatype
import dns.rdtypes.ANY.TXT
import dns.tsig
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.answering.errand import Transfer
from lbdns.answering.explain_txt import MAX_TEXT, TOLD, strings, texts
from lbdns.answering.respond import Client, Responder
from lbdns.config import CookiesConfig, RateLimitConfig
from lbdns.config.explain import ExplainConfig
from lbdns.farm import Farm, Pool
from tests.answering.asking import TCP, UDP, make_query, read
from tests.answering.configured import SECRET, at_work, configured, using
from tests.answering.farms import HOBBIT, MEMBERS, hobbit, make_farm, pool
from tests.answering.secondaries import dns_key, query_for, responder_for, with_secondaries
from tests.planes import PLANES

HERE: Final[Client] = ("127.0.0.1", 4000)
ELSEWHERE: Final[Client] = ("192.0.2.1", 4000)
ROOT: Final = "$TTL 60\n@ SOA ns. host. 1 60 60 60 60\n@ NS ns.\nns A 127.0.0.1\nsam A 127.0.0.2\n"
POOLS: Final = (
    pool(),
    pool("apex", names={"@": "best", "at": "weighted"}, answer="address"),
)
FARM: Final = hobbit(*POOLS)


@pytest.fixture(params=PLANES, autouse=True)
def plane(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test is made with both planes."""
    with using(request.param):
        yield


def member(name: str, **more: Any) -> dict[str, Any]:
    usual = {
        "name": name, "probability": 0.0, "score": 66, "score_parts": {}, "capacity": 120.4, "left": 1.0, "load": 3.0,
        "charge": 0.0, "credit": -0.0, "state": "usable", "reason": "", "guard": "", "suspect": False, "age_s": 0.4,
    }  # fmt: skip
    return {**usual, **more}


def document(owner: str = "best", members: Sequence[Mapping[str, Any]] = (), **more: Any) -> dict[str, Any]:
    usual = {
        "next": "gandalf", "why": "because", "policy": "best", "pool": owner, "answers_per_s": 0.2,
        "requests_per_s": 12.0, "interval_s": 1.0, "fail_open": False, "fail_open_reason": "", "measured": True,
        "worker": 0, "workers": 1, "members": members or [member(name) for name in MEMBERS],
    }  # fmt: skip
    return {**usual, **more}


def explained(pool: Pool, owner: str) -> Mapping[str, Any] | None:
    """Who is asked for stands where the pool's name does."""
    return document(f"{pool.name}/{owner}")


def answering(farm: Farm = FARM, secrets: tuple[bytes, ...] = ()) -> Responder:
    responder = at_work(farm, secrets)
    responder.explainer = explained
    return responder


def ask(
    responder: Responder, name: str, rtype: str = "TXT", client: Client = HERE, transport: int = UDP, **way: Any
) -> dns.message.Message:
    query = make_query(dns.name.from_text(name), rtype, **way)
    wire = responder.respond(query, client, transport)
    assert isinstance(wire, bytes)
    assert wire[12 : 12 + len(query) - 12][: len(name) + 1] == query[12:][: len(name) + 1], "the case is kept"
    return read(wire)


def told(message: dns.message.Message) -> list[str]:
    """The texts of a response, in order, each record's joined."""
    (rrset,) = message.answer
    assert (rrset.rdtype, rrset.ttl) == (dns.rdatatype.TXT, 0)
    return [b"".join(rdata.strings).decode("ascii") for rdata in rrset]


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
    [
        ("explain.best TXT mine", '"mine"'),
        ("x.explain.best TXT mine", None),
        ("explain.best A 127.0.0.5", None),
    ],
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


# As other answers


def test_nothing_is_handed_out_counted_or_kept() -> None:
    responder = answering()
    handouts = responder.table.handouts.values()
    before = dict(responder.table.entries)
    for number in range(5):
        assert told(ask(responder, "explain.best.hobbit", ident=number))
        assert told(ask(responder, "explain.round.robin.hobbit", ident=number, transport=TCP))
    assert [handout.given for handout in handouts] == [0] * len(handouts)
    assert responder.table.entries == before
    assert responder.table.queries() == {("hobbit", 16, "udp", 0): 5, ("hobbit", 16, "tcp", 0): 5}
    assert all(count == 0 for count in responder.counters().values())


def test_each_answer_is_made_anew() -> None:
    responder = at_work(FARM, ())
    asked: list[str] = []

    def explainer(pool: Pool, owner: str) -> Mapping[str, Any] | None:
        asked.append(owner)
        return document(str(len(asked))) if len(asked) < 3 else None

    responder.explainer = explainer
    assert "pool=1 " in told(ask(responder, "explain.best.hobbit"))[0]
    assert "pool=2 " in told(ask(responder, "explain.best.hobbit"))[0], "the very same datagram"
    assert told(ask(responder, "explain.best.hobbit")) == ["no explanation just now: a reload is under way; ask again"]
    assert asked == ["best"] * 3
    ask(responder, "explain.best.hobbit", "A")
    assert asked == ["best"] * 3, "who asks for another type needs none"


def test_what_is_over_the_rate_limit_is_not_even_made() -> None:
    farm = configured(FARM, rate_limit=RateLimitConfig(3, 2, exempt=()))
    responder, asked = at_work(farm, ()), []

    def explainer(pool: Pool, owner: str) -> Mapping[str, Any]:
        asked.append(owner)
        return document()

    responder.explainer = explainer
    found = [responder.respond(make_query("explain.best.hobbit", "TXT", ident=n, payload=1232), HERE) for n in range(8)]
    assert [wire if wire is None else bool(read(wire).flags & dns.flags.TC) for wire in found[3:]] == [
        None, True, None, True, None,
    ]  # fmt: skip
    assert len(asked) == 3
    assert told(ask(responder, "explain.best.hobbit", transport=TCP))


def many(count: int = 200) -> Responder:
    responder = at_work(FARM, ())
    members = [member(f"m{n}", reason="x" * 5000, probability=1 / count) for n in range(count)]
    responder.explainer = lambda pool, owner: document(members=members)
    return responder


def test_what_is_too_long_for_udp_comes_over_tcp() -> None:
    responder = many()
    for payload in (None, 512, 1232, 65535):
        message = ask(responder, "explain.best.hobbit", payload=payload)
        assert message.flags & dns.flags.TC
        assert message.answer == []
    assert responder.counters()["too_long_cut"] == 4
    texts = told(ask(responder, "explain.best.hobbit", transport=TCP))
    assert len(texts) == 1 + TOLD
    assert texts[0].endswith("members=200 (180 less probable ones are left out)")
    assert all(len(text) == MAX_TEXT for text in texts[1:])


def test_long_answers_over_udp_are_for_who_has_a_cookie() -> None:
    farm = configured(FARM, cookies=CookiesConfig(udp_without=512))
    responder = at_work(farm, (SECRET,))
    members = [member(name, reason="x" * 100) for name in MEMBERS]
    responder.explainer = lambda pool, owner: document(members=members)
    option = dns.edns.GenericOption(dns.edns.OptionType.COOKIE, b"12345678")
    message = ask(responder, "explain.best.hobbit", payload=1232, options=[option])
    assert message.flags & dns.flags.TC
    (cookie,) = message.options
    whole = dns.edns.GenericOption(dns.edns.OptionType.COOKIE, cookie.to_wire() or b"")
    assert len(told(ask(responder, "explain.best.hobbit", payload=1232, options=[whole]))) == 1 + len(MEMBERS)


def test_a_signed_query_gets_a_signed_answer() -> None:
    responder = responder_for(with_secondaries(FARM))
    responder.explainer = explained
    query = query_for("explain.best.hobbit", "TXT", key=dns_key())
    query.use_tsig(dns_key())
    wire = responder.respond(query.to_wire(), HERE, TCP)
    assert isinstance(wire, bytes)
    response = dns.message.from_wire(wire, keyring=query.keyring, request_mac=query.mac)
    assert response.had_tsig
    assert "web/best" in told(response)[0]


def test_no_transfer_has_it() -> None:
    responder = responder_for(with_secondaries(FARM))
    responder.explainer = explained
    transfer = responder.respond(query_for().to_wire(), HERE, TCP)
    assert isinstance(transfer, Transfer)
    messages = list(transfer.messages)
    assert messages
    assert not any(b"explain" in message for message in messages)
    for rtype in ("AXFR", "IXFR"):
        wire = responder.respond(query_for("explain.best.hobbit", rtype, serial=7).to_wire(), HERE, TCP)
        assert isinstance(wire, bytes)
        assert not read(wire).answer


# The texts


def test_the_texts() -> None:
    members = [
        member("bilbo", probability=0.25, score=None, age_s=None, state="silent", reason="no report for 12 s"),
        member(
            "frodo",
            probability=0.25,
            guard="ramp 10%",
            suspect=True,
            capacity=0.5,
            left=0.35,
            load=1234.5,
            charge=17.25,
        ),
        member(
            "gandalf", probability=0.5, score_parts={"cpu_idle": 19.58, "run_queue": 12.1, "idle": 0.0}, credit=0.2345
        ),
    ]
    assert list(texts(document("web", members))) == [
        "next=gandalf (because) policy=best pool=web answers=0.2/s requests=12/s interval=1s fail_open=no members=3",
        "gandalf p=0.50 score=66 (cpu_idle 19.6 run_queue 12.1 idle 0) capacity=120/s load=3 charge=0 credit=0.234 "
        "state=usable age=0.4s",
        "frodo p=0.25 score=66 capacity=0.5/s left=0.35 load=1234 charge=17.2 credit=0 state=usable guard=(ramp 10%) "
        "suspect=yes age=0.4s",
        "bilbo p=0.25 score=none capacity=120/s load=3 charge=0 credit=0 state=silent (no report for 12 s)",
    ]
    told = document("web", members, measured=False, requests_per_s=None, fail_open=True, fail_open_reason="all are out")
    summary, first, *_ = texts({**told, "worker": 1, "workers": 2})
    assert summary == (
        "next=gandalf (because) policy=best pool=web answers=0.2/s requests=unknown interval=1s "
        "fail_open=yes (all are out) worker=1 members=3"
    )
    assert "capacity=120 " in first


def joined(rdata: bytes) -> str:
    """As dnspython reads it."""
    read = dns.rdata.from_wire("IN", "TXT", rdata, 0, len(rdata))
    assert isinstance(read, dns.rdtypes.ANY.TXT.TXT)
    return b"".join(read.strings).decode("ascii")


@given(st.text(max_size=1500))
def test_any_text_is_told_in_printable_ascii(text: str) -> None:
    found = joined(strings(text))
    assert len(found) <= MAX_TEXT
    assert all(" " <= char <= "~" for char in found)
    if text.isascii() and text.isprintable():
        assert found == (text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "...")


def test_what_is_not_printable_is_escaped() -> None:
    assert joined(strings('Tür\n\x7f\x00 "zu" \\ 🧙')) == 'T\\xfcr\\n\\x7f\\x00 "zu" \\ \\U0001f9d9'
    assert strings("") == b"\0"


def test_strings_part_behind_spaces() -> None:
    rdata = strings("a" * 200 + " " + "b" * 54 + " " + "c" * 300)
    assert [rdata[0], rdata[1 + 201], rdata[1 + 201 + 1 + 55]] == [201, 55, 255]
    assert strings("word " * 100)[0] == 255
