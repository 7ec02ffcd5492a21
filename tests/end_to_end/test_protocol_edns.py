"""Tests of EDNS options and sizes with dig, kdig and dnspython on a running server."""

from __future__ import annotations

from collections.abc import Iterator

import dns.edns
import dns.flags
import dns.message
import dns.query
import dns.rcode
import pytest

from lbdns_shared.endpoint import Endpoint
from tests.end_to_end.protocol import IDENTITY, PATIENCE, PLANES, VERSION, dig, exchange, kdig, serving
from tests.needs import needs

pytestmark = needs(programs=("dig", "kdig"))
COOKIE = "2464c4abcf10c957"
MIDDLE = "".join(f'middle TXT "{number:02}-{"x" * 40}"\n' for number in range(17))


@pytest.fixture(scope="module", params=PLANES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    told = f'identity = "{IDENTITY}"\nversion = "{VERSION}"'
    with serving(tmp_path_factory.mktemp("edns"), plane=request.param, server=told, zone=MIDDLE) as (_, endpoint):
        yield endpoint


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """Run a server that hides its version, uses a custom payload size, and sends long answers even without cookies."""
    settings = 'secret_file = "cookie.secret"\nudp_without = 1232'
    folder = tmp_path_factory.mktemp("silent")
    with serving(folder, server="payload = 900", cookies=settings, zone=MIDDLE) as (_, endpoint):
        yield endpoint


def ask(at: Endpoint, query: dns.message.Message, over_tcp: bool = False) -> dns.message.Message:
    """Send a query with dnspython, which checks the ID, question and source of the response."""
    way = dns.query.tcp if over_tcp else dns.query.udp
    return way(query, at.host, timeout=PATIENCE, port=at.port)


class TestCookies:
    @pytest.mark.parametrize("over", ["+notcp", "+tcp"])
    @pytest.mark.parametrize("name", ["best.hobbit", "hobbit", "nowhere.hobbit", "example.org"])
    def test_dig_learns_one_and_shows_it(self, server: Endpoint, name: str, over: str) -> None:
        shown = COOKIE
        for _ in range(3):
            reply = dig(server, name, f"+cookie={shown}", over)
            assert reply.options["COOKIE"].endswith("(good)")
            assert reply.status != "BADCOOKIE"
            assert shown in (COOKIE, reply.cookie), "a valid one is kept"
            shown = reply.cookie
            assert shown.startswith(COOKIE + "01000000")
            assert len(shown) == 48

    def test_a_cookie_that_dig_learned_makes_long_answers_whole(self, server: Endpoint) -> None:
        first = dig(server, "big.hobbit", "TXT", f"+cookie={COOKIE}", "+ignore")
        assert "tc" in first.flags
        assert first.answer == []
        second = dig(server, "big.hobbit", "TXT", f"+cookie={first.cookie}", "+ignore")
        assert "tc" not in second.flags
        assert len(second.answer) == 5
        assert second.cookie == first.cookie

    def test_dig_without_a_cookie_is_sent_to_tcp(self, server: Endpoint) -> None:
        for arguments in (("+nocookie",), ("+noedns",)):
            reply = dig(server, "big.hobbit", "TXT", *arguments)
            assert "Truncated, retrying in TCP mode" in reply.text
            assert len(reply.answer) == 5

    def test_how_long_answers_without_one_may_be_is_settable(self, silent: Endpoint) -> None:
        reply = dig(silent, "big.hobbit", "TXT", "+nocookie", "+ignore")
        assert len(reply.answer) == 5

    def test_kdig_learns_one_and_shows_it(self, server: Endpoint) -> None:
        first = kdig(server, "best.hobbit", f"+cookie={COOKIE}")
        assert f";; COOKIE: {COOKIE}01000000" in first.upper().lower().replace(";; cookie", ";; COOKIE")
        learned = next(line.split()[2] for line in first.splitlines() if line.startswith(";; COOKIE"))
        second = kdig(server, "big.hobbit", "TXT", f"+cookie={learned}", "+ignore")
        assert "status: NOERROR" in second
        assert learned in second
        assert second.count('"a0123456789') == 1, "it is whole"

    def test_kdig_does_not_see_badcookie(self, server: Endpoint) -> None:
        assert "BADCOOKIE" not in kdig(server, "best.hobbit", "+cookie", "+badcookie")

    def test_two_servers_with_one_secret(self, server: Endpoint, silent: Endpoint) -> None:
        learned = dig(silent, "best.hobbit", f"+cookie={COOKIE}").cookie
        reply = dig(server, "big.hobbit", "TXT", f"+cookie={learned}", "+ignore")
        assert len(reply.answer) == 5
        assert reply.cookie == learned

    @pytest.mark.parametrize(
        ("cookie", "rcode"),
        [(COOKIE, dns.rcode.NOERROR), (COOKIE + "01" * 16, dns.rcode.BADCOOKIE), (COOKIE + "01", dns.rcode.FORMERR)],
    )
    def test_a_cookie_alone(self, server: Endpoint, cookie: str, rcode: dns.rcode.Rcode) -> None:
        query = dns.message.Message()
        query.flags = dns.flags.Flag(0)
        query.use_edns(0, options=[dns.edns.GenericOption(dns.edns.OptionType.COOKIE, bytes.fromhex(cookie))])
        response = ask(server, query)
        assert (response.rcode(), response.question, response.answer) == (rcode, [], [])
        assert len(response.options) == (0 if rcode == dns.rcode.FORMERR else 1)
        if rcode != dns.rcode.FORMERR:
            learned = response.options[0].to_wire() or b""
            query.use_edns(0, options=[dns.edns.GenericOption(dns.edns.OptionType.COOKIE, learned)])
            assert ask(server, query).rcode() == dns.rcode.NOERROR

    def test_no_question_and_no_cookie(self, server: Endpoint) -> None:
        # dig's question is left out by +header-only
        for arguments in (("+noedns",), ("+nocookie",), ("+nocookie", "+nsid")):
            reply = dig(server, "+header-only", *arguments)
            assert (reply.status, reply.counts["QUERY"]) == ("FORMERR", 0)
        assert dig(server, "+header-only", "+cookie").status == "NOERROR"

    @pytest.mark.parametrize("length", [0, 7, 9, 15, 41])
    def test_malformed(self, server: Endpoint, length: int) -> None:
        reply = dig(server, "best.hobbit", "+nocookie", f"+ednsopt=10:{'ab' * length}")
        assert (reply.status, reply.answer) == ("FORMERR", [])
        assert reply.options == {}


class TestOtherOptions:
    def test_nsid(self, server: Endpoint, silent: Endpoint) -> None:
        assert f'"{IDENTITY}"' in dig(server, "best.hobbit", "+nsid", "+nocookie").options["NSID"]
        assert f'"{IDENTITY}"' in kdig(server, "best.hobbit", "+nsid")
        assert dig(silent, "best.hobbit", "+nsid", "+nocookie").options == {}
        assert dig(server, "best.hobbit", "+nocookie").options == {}

    @pytest.mark.parametrize(
        ("asked", "answered"),
        [
            ("0.0.0.0/0", "0.0.0.0/0/0"),
            ("192.0.2.0/24", "192.0.2.0/24/0"),
            ("192.0.2.129/25", "192.0.2.128/25/0"),
            ("2001:db8::/56", "2001:db8::/56/0"),
            ("::/0", "::/0/0"),
            ("0", "0.0.0.0/0/0"),
        ],
    )
    def test_client_subnet_has_scope_0(self, server: Endpoint, asked: str, answered: str) -> None:
        reply = dig(server, "best.hobbit", f"+subnet={asked}", "+nocookie")
        assert reply.status == "NOERROR"
        assert reply.options == {"CLIENT-SUBNET": answered}
        assert reply.answer[0][1] == "CNAME"

    def test_the_client_s_subnet_does_not_decide(self, server: Endpoint) -> None:
        members = [dig(server, "round.robin.hobbit", "+subnet=192.0.2.0/24").answer[0][2] for _ in range(3)]
        assert len(set(members)) == 3

    @pytest.mark.parametrize(
        "data", ["00", "000118", "00011818c00002", "00011800c000", "00012100c000020000", "0003080001"]
    )
    def test_a_malformed_subnet(self, server: Endpoint, data: str) -> None:
        reply = dig(server, "best.hobbit", "+nocookie", f"+ednsopt=8:{data}")
        assert (reply.status, reply.answer, reply.options) == ("FORMERR", [], {})

    def test_keepalive_over_tcp_alone(self, server: Endpoint) -> None:
        assert dig(server, "best.hobbit", "+keepalive", "+nocookie", "+tcp").options["TCP KEEPALIVE"].startswith("10.0")
        assert dig(server, "best.hobbit", "+keepalive", "+nocookie").options == {}
        assert dig(server, "best.hobbit", "+nocookie", "+tcp").options == {}

    @pytest.mark.parametrize("over", ["+notcp", "+tcp"])
    def test_padding_is_ignored(self, server: Endpoint, over: str) -> None:
        assert dig(server, "best.hobbit", "+padding=128", "+nocookie", over).options == {}
        assert "PADDING" not in kdig(server, "best.hobbit", "+padding=64", over).upper()

    @pytest.mark.parametrize("option", ["100", "100:abcd", "65001:00", "9", "15:0001", "13:00"])
    def test_unknown_options_are_ignored(self, server: Endpoint, option: str) -> None:
        reply = dig(server, "best.hobbit", "+nocookie", f"+ednsopt={option}")
        assert (reply.status, reply.options) == ("NOERROR", {})
        assert reply.answer[0][1] == "CNAME"

    def test_what_we_answer_is_answered_together(self, server: Endpoint) -> None:
        reply = dig(server, "best.hobbit", "+cookie", "+nsid", "+subnet=192.0.2.0/24", "+keepalive", "+tcp", "+expire")
        assert set(reply.options) == {"COOKIE", "NSID", "CLIENT-SUBNET", "TCP KEEPALIVE"}


class TestSizes:
    @pytest.mark.parametrize("asked", [512, 1231, 1232, 4096, 65535])
    def test_what_we_receive_is_said(self, server: Endpoint, silent: Endpoint, asked: int) -> None:
        assert dig(server, "best.hobbit", f"+bufsize={asked}").edns.endswith("udp: 1232")
        assert dig(silent, "best.hobbit", f"+bufsize={asked}").edns.endswith("udp: 900")

    @pytest.mark.parametrize(
        ("name", "size", "records"), [("big", 512, 0), ("big", 1232, 5), ("big", 65535, 5), ("huge", 65535, 0)]
    )
    def test_an_answer_is_whole_or_nothing(self, server: Endpoint, name: str, size: int, records: int) -> None:
        learned = dig(server, "best.hobbit", f"+cookie={COOKIE}").cookie
        asked = (f"{name}.hobbit", "TXT", f"+bufsize={size}", f"+cookie={learned}")
        reply = dig(server, *asked, "+ignore")
        assert ("tc" in reply.flags) is (records == 0)
        assert (len(reply.answer), reply.counts["AUTHORITY"]) == (records, 0), "no RRset is torn"
        assert len(dig(server, *asked, "+tcp").answer) == {"big": 5, "huge": 100}[name]

    def test_a_smaller_size_of_our_own(self, server: Endpoint, silent: Endpoint) -> None:
        # 1,000 bytes: between what the one sends and what the other does
        learned = dig(server, "best.hobbit", f"+cookie={COOKIE}").cookie
        asked = ("middle.hobbit", "TXT", f"+cookie={learned}", "+bufsize=4096", "+ignore")
        assert len(dig(server, *asked).answer) == len(MIDDLE.splitlines())
        assert dig(silent, *asked).flags == {"qr", "aa", "rd", "tc"}

    def test_two_opt_records(self, server: Endpoint) -> None:
        query = dns.message.make_query("best.hobbit", "A", use_edns=0)
        wire = bytearray(query.to_wire())
        wire[11] = 2
        opt = bytes(wire[-11:])
        response = dns.message.from_wire(exchange(server, bytes(wire) + opt))
        assert response.rcode() == dns.rcode.FORMERR
        assert response.id == query.id


class TestChaos:
    @pytest.mark.parametrize(
        ("name", "text"),
        [("version.bind", VERSION), ("version.server", VERSION), ("hostname.bind", IDENTITY), ("id.server", IDENTITY)],
    )
    def test_told_if_configured(self, server: Endpoint, silent: Endpoint, name: str, text: str) -> None:
        reply = dig(server, "CH", "TXT", name)
        assert (reply.status, reply.answer) == ("NOERROR", [(f"{name}.", "TXT", f'"{text}"')])
        assert "aa" in reply.flags
        assert text in kdig(server, "CH", "TXT", name.upper())
        assert dig(silent, "CH", "TXT", name).status == "REFUSED"

    @pytest.mark.parametrize(
        "asked", [("CH", "TXT", "authors.bind"), ("CH", "A", "best.hobbit"), ("HS", "A", "best.hobbit")]
    )
    def test_other_questions_of_other_classes(self, server: Endpoint, asked: tuple[str, str, str]) -> None:
        assert dig(server, *asked).status == "REFUSED"
