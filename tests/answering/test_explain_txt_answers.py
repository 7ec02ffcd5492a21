"""Tests of answers to ``explain.NAME TXT``: texts, counters, rate limiting, truncation and signatures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rdata
import dns.rdtypes.ANY.TXT
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.answering.explain_txt import BURST, MAX_MEMBERS, MAX_TEXT, PER_SECOND, strings, texts
from lbdns.answering.responder import Responder
from lbdns.answering.zone_transfer import ZoneTransfer
from lbdns.config import CookiesConfig, RateLimitConfig
from lbdns.model.farm import Pool
from tests.answering.asking import TCP, make_query, read
from tests.answering.configured import SECRET, at_work, configured
from tests.answering.explaining import FARM, HERE, answering, ask, document, explained, member, told
from tests.answering.farms import MEMBERS
from tests.answering.secondaries import dns_key, query_for, responder_for, with_secondaries

pytestmark = pytest.mark.usefixtures("both_planes")


# As other answers


def test_nothing_is_handed_out_counted_or_kept() -> None:
    responder = answering()
    handouts = responder.table.cursors.values()
    before = dict(responder.table.entries)
    for number in range(5):
        assert told(ask(responder, "explain.best.hobbit", ident=number))
        assert told(ask(responder, "explain.round.robin.hobbit", ident=number, transport=TCP))
    assert [handout.taken for handout in handouts] == [0] * len(handouts)
    assert responder.table.entries == before
    assert responder.table.queries() == {("hobbit", 16, "udp", 0): 5, ("hobbit", 16, "tcp", 0): 5}
    assert all(count == 0 for count in responder.counters().values())


def test_the_number_of_explanations_in_a_second_is_limited() -> None:
    responder = answering()
    responder.tick(1000.0, 1000.0)
    found = [ask(responder, "explain.best.hobbit", ident=n).rcode() for n in range(1, 301)]
    assert found == [0] * int(BURST) + [dns.rcode.REFUSED] * (300 - int(BURST))
    assert ask(responder, "best.hobbit").rcode() == 0, "other answers are not limited"
    responder.tick(1000.5, 1000.5)
    found = [ask(responder, "explain.best.hobbit", ident=n).rcode() for n in range(1, 101)]
    assert found.count(dns.rcode.NOERROR) == int(PER_SECOND / 2)


def test_each_answer_is_made_anew() -> None:
    responder = at_work(FARM, ())
    asked: list[str] = []

    def explainer(pool: Pool, owner: str) -> Mapping[str, Any] | None:
        asked.append(owner)
        return document(str(len(asked))) if len(asked) < 3 else None

    responder.explainer = explainer
    assert "pool=1 " in told(ask(responder, "explain.best.hobbit"))[0]
    assert "pool=2 " in told(ask(responder, "explain.best.hobbit"))[0], "the very same datagram"
    assert told(ask(responder, "explain.best.hobbit")) == [
        "no explanation is available during a reload; repeat the query later"
    ]
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
    assert len(texts) == 1 + MAX_MEMBERS
    assert texts[0].endswith("members=200 (180 less probable members omitted)")
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
    assert isinstance(transfer, ZoneTransfer)
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
