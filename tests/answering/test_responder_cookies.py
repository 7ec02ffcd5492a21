"""Tests of cookies: valid cookies permit long answers, the fast and slow paths agree, and cookies are optional."""

from __future__ import annotations

from itertools import product

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.answering.responder import Client, Responder
from lbdns.config import CookiesConfig
from lbdns.policies.plan import Plan
from tests.answering.asking import TCP, UDP, client, make_query, read
from tests.answering.configured import NOW, SECRET, WALL, at_work, configured
from tests.answering.farms import MEMBERS, hobbit, pool

pytestmark = pytest.mark.usefixtures("both_planes")

COOKIE = dns.edns.OptionType.COOKIE
CLIENT = b"\x24\x64\xc4\xab\xcf\x10\xc9\x57"


def query(name: str = "best.hobbit", cookie: bytes | None = CLIENT, rtype: str = "A", payload: int = 1232) -> bytes:
    options: list[dns.edns.Option] = [] if cookie is None else [dns.edns.GenericOption(COOKIE, cookie)]
    return make_query(name, rtype, payload=payload, options=options)


def cookie_of(response: object) -> bytes:
    """Return the full cookie from a response. The cookie must be the response's only EDNS option."""
    assert isinstance(response, bytes)
    (option,) = read(response).options
    assert option.otype == COOKIE
    return option.to_wire() or b""


def learn(responder: Responder, who: Client) -> bytes:
    return cookie_of(responder.respond(query(), who))


def alone(cookie: bytes) -> bytes:
    """Return a query that has no question and only this cookie as its EDNS option."""
    option = b"\0\x0a" + len(cookie).to_bytes(2, "big") + cookie
    return b"id\0\0\0\0\0\0\0\0\0\1\0\0\x29\4\xd0\0\0\0\0" + len(option).to_bytes(2, "big") + option


@pytest.mark.parametrize("transport", [UDP, TCP])
@pytest.mark.parametrize("name", ["best.hobbit", "bilbo.hobbit", "nowhere.hobbit", "example.org", "x.wild.hobbit"])
def test_every_response_to_a_cookie_has_one(name: str, transport: int) -> None:
    responder, who = at_work(configured()), client()
    for _ in range(3):
        learned = cookie_of(responder.respond(query(name), who, transport))
        assert learned[:8] == CLIENT
        assert cookie_of(responder.respond(query(name, learned), who, transport)) == learned


def test_no_cookie_without_one_asked_for() -> None:
    responder = at_work(configured())
    for _ in range(2):
        assert read(responder.respond(query(cookie=None), client())).options == ()
        assert read(responder.respond(make_query("best.hobbit"), client())).edns == -1


def test_without_secrets_nobody_gets_any() -> None:
    responder = at_work(configured(), secrets=())
    for _ in range(2):
        message = read(responder.respond(query(), client()))
        assert (message.options, message.rcode()) == ((), dns.rcode.NOERROR)


class TestLongAnswers:
    """The TXT record of big.hobbit is 600 bytes long."""

    def ask(self, responder: Responder, who: Client, cookie: bytes | None, payload: int = 1232) -> dns.message.Message:
        return read(responder.respond(query("big.hobbit", cookie, "TXT", payload), who))

    def test_a_valid_cookie_makes_the_difference(self) -> None:
        responder, who = at_work(configured()), client()
        cookie = learn(responder, who)
        for shown in (None, CLIENT, cookie[:-1] + bytes((cookie[-1] ^ 1,))):
            message = self.ask(responder, who, shown)
            assert message.flags & dns.flags.TC
            assert message.answer == []
        message = self.ask(responder, who, cookie)
        assert not message.flags & dns.flags.TC
        assert len(message.answer[0]) == 5
        assert self.ask(responder, ("127.9.9.9", 1024), cookie).flags & dns.flags.TC, "from another address"

    def test_but_no_more_than_the_client_takes(self) -> None:
        responder, who = at_work(configured()), client()
        assert self.ask(responder, who, learn(responder, who), payload=512).flags & dns.flags.TC

    @pytest.mark.parametrize(("without", "cut"), [(512, True), (590, True), (700, False), (1232, False)])
    def test_how_long_without_can_be_set(self, without: int, cut: bool) -> None:
        responder = at_work(configured(cookies=CookiesConfig(udp_without=without)))
        assert bool(self.ask(responder, client(), None).flags & dns.flags.TC) is cut

    def test_without_secrets_there_is_no_such_rule(self) -> None:
        assert not self.ask(at_work(configured(), secrets=()), client(), None).flags & dns.flags.TC

    def test_over_tcp_there_is_none_either(self) -> None:
        responder = at_work(configured())
        message = read(responder.respond(query("big.hobbit", None, "TXT"), client(), TCP))
        assert len(message.answer[0]) == 5


def test_a_cut_answer_moves_no_rotation() -> None:
    many = "".join(f"{name} A 127.1.0.{number}\n" for name in MEMBERS for number in range(40))
    responder = at_work(configured(hobbit(pool(), more=many)))
    handout, who = responder.table.cursors["web", "round_robin"], client()
    for cookie in (None, CLIENT, CLIENT + bytes(16)):
        for _ in range(2):
            assert read(responder.respond(query("round.robin.hobbit", cookie), client())).flags & dns.flags.TC
    assert handout.totals() == [0, 0, 0]
    learned = learn(responder, who)
    message = read(responder.respond(query("round.robin.hobbit", learned), who))
    assert len(message.answer[1]) == 41
    assert handout.totals() == [1, 0, 0]


# A cookie alone (RFC 7873 section 5.4)


def test_no_question_but_a_cookie() -> None:
    responder, who = at_work(configured()), client()
    for rcode, shown in [
        (0, CLIENT),
        (dns.rcode.BADCOOKIE, CLIENT + bytes(16)),
        (dns.rcode.BADCOOKIE, CLIENT + bytes(8)),
    ]:
        message = read(responder.respond(alone(shown), who))
        assert (message.rcode(), message.question, message.answer, message.authority) == (rcode, [], [], [])
        assert (message.options[0].to_wire() or b"")[:8] == CLIENT
    learned = cookie_of(responder.respond(alone(CLIENT), who))
    message = read(responder.respond(alone(learned), who))
    assert message.rcode() == dns.rcode.NOERROR
    assert cookie_of(responder.respond(alone(learned), who)) == learned


@pytest.mark.parametrize("cookie", [b"", b"1234567", b"123456789", bytes(41)])
@pytest.mark.parametrize("transport", [UDP, TCP])
def test_a_malformed_cookie_is_a_format_error(cookie: bytes, transport: int) -> None:
    responder = at_work(configured())
    for wire in (alone(cookie), query(cookie=cookie), query("nowhere.hobbit", cookie)):
        for _ in range(2):
            message = read(responder.respond(wire, client(), transport))
            assert (message.rcode(), message.answer, message.options) == (dns.rcode.FORMERR, [], ())


def test_no_question_and_no_cookie() -> None:
    responder = at_work(configured(), secrets=())
    for wire in (b"id\0\0\0\0\0\0\0\0\0\0", alone(CLIENT)):
        assert read(responder.respond(wire, client())).rcode() == dns.rcode.FORMERR


# The same secret on several servers, and its rotation


def test_a_cookie_of_one_server_is_good_at_the_other() -> None:
    one, other, stranger = at_work(configured()), at_work(configured()), at_work(configured(), secrets=(bytes(16),))
    who = client()
    cookie = learn(one, who)
    long = query("big.hobbit", cookie, "TXT")
    assert not read(other.respond(long, who)).flags & dns.flags.TC
    assert read(stranger.respond(long, who)).flags & dns.flags.TC


def test_a_reload_with_two_secrets_keeps_cookies_and_gives_new_ones() -> None:
    responder, who, new = at_work(configured()), client(), b"the new secret!!"
    cookie = learn(responder, who)
    responder.use(responder.table, (new, SECRET))
    wire = responder.respond(query("big.hobbit", cookie, "TXT"), who)
    assert not read(wire).flags & dns.flags.TC
    renewed = cookie_of(wire)
    assert renewed != cookie
    responder.use(responder.table, (new,))
    assert read(responder.respond(query("big.hobbit", cookie, "TXT"), who)).flags & dns.flags.TC
    assert not read(responder.respond(query("big.hobbit", renewed, "TXT"), who)).flags & dns.flags.TC


def test_a_cookie_expires() -> None:
    responder, who = at_work(configured()), client()
    long = query("big.hobbit", learn(responder, who), "TXT")
    responder.tick(NOW + 3500, WALL + 3500)
    assert not read(responder.respond(long, who)).flags & dns.flags.TC
    responder.tick(NOW + 3700, WALL + 3700)
    assert read(responder.respond(long, who)).flags & dns.flags.TC


# The short way and the long one


FARM = configured()


def fixed() -> Responder:
    """Return a responder in which every policy selects only the second member, so that responses can be compared."""
    responder = at_work(FARM)
    for handout in responder.table.cursors.values():
        handout.set_plan(Plan((1,)))
    return responder


def test_from_the_second_time_on_it_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    responder, who = fixed(), client()
    first = responder.respond(query(), who)
    learned = cookie_of(first)
    known = responder.respond(query(cookie=learned), who)

    def refuse(*_: object) -> bytes | None:
        raise AssertionError("took the long way")

    monkeypatch.setattr(Responder, "respond_slowly", refuse)
    assert responder.respond(query(), who) == first
    assert responder.respond(query(cookie=learned), who) == known
    for cookie in (CLIENT + bytes(8), CLIENT[:7]):
        with pytest.raises(AssertionError, match="long way"):
            responder.respond(query(cookie=cookie), who)


GOOD = [
    query(name, cookie, payload=payload)
    for name, cookie, payload in product(
        ("best.hobbit", "bilbo.hobbit"), (CLIENT, CLIENT + bytes(16), CLIENT + bytes(8)), (1232, 4096, 1231)
    )
]
COLD, WARM = fixed(), fixed()
for _wire in GOOD:
    WARM.respond(_wire, client())

CUT_OR_LONG = {
    "the option says 24 bytes, 8 are there": query(cookie=CLIENT + bytes(16))[:-16],
    "the option says 8 bytes, 24 are there": query(cookie=CLIENT) + bytes(16),
    "a byte is missing": query(cookie=CLIENT)[:-1],
    "a byte too many": query(cookie=CLIENT + bytes(16)) + b"x",
}


@pytest.mark.parametrize("wire", CUT_OR_LONG.values(), ids=CUT_OR_LONG)
def test_a_cookie_that_does_not_fill_its_option_is_a_format_error_also_to_a_warm_table(wire: bytes) -> None:
    for responder in (fixed(), WARM):
        assert read(responder.respond(wire, client())).rcode() == dns.rcode.FORMERR


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    wire = bytearray(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(len(wire) // 2, len(wire) - 1))  # from the OPT on
        match draw(st.sampled_from(["change", "remove", "insert", "cut", "add"])):
            case "change":
                wire[at] = draw(st.sampled_from([0, 1, 8, 10, 24, 28, 255]))
            case "remove":
                del wire[at]
            case "insert":
                wire.insert(at, draw(st.integers(0, 255)))
            case "cut":
                del wire[at:]
            case "add":
                wire += bytes(draw(st.sampled_from([1, 8, 16])))
    return bytes(wire)


@settings(max_examples=300, deadline=None)
@given(mutations(), st.sampled_from([UDP, TCP]))
def test_a_query_with_mistakes_is_answered_alike_both_ways(wire: bytes, transport: int) -> None:
    who = client()
    assert WARM.respond(wire, who, transport) == COLD.respond_slowly(wire, who, transport)
