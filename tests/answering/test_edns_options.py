"""Tests of EDNS options in queries: answered, ignored and malformed options."""

from __future__ import annotations

import ipaddress

import dns.edns
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.answering.cookies import ServerCookies
from lbdns.answering.edns import Edns, EdnsOptions, OptionCode, answer_options, read_options, write_option
from lbdns.server.transport import tcp

NOW = 1_700_000_000.0
HOST = "192.0.2.1"
JAR = ServerCookies([bytes(16)])
CLIENT = b"12345678"


def answer(
    *asked: tuple[int, bytes], over_tcp: bool = False, identity: bytes = b"", jar: ServerCookies | None = JAR
) -> EdnsOptions:
    return answer_options(Edns(1232, 0, False, asked), HOST, over_tcp, identity, jar, NOW)


def written(found: EdnsOptions) -> dict[int, bytes]:
    """Return the options of the response, keyed by option code."""
    read = read_options(found.written)
    assert read is not None
    assert len(dict(read)) == len(read), "none twice"
    return dict(read)


def test_no_options_are_answered_with_none() -> None:
    assert answer() == EdnsOptions()


#: EXPIRE, padding, CHAIN, key tag, EDE, DAU, two unknown ones and one for local use
IGNORED = [9, 12, 13, 14, 15, 5, 100, 4711, 65001]


@pytest.mark.parametrize("code", IGNORED)
@pytest.mark.parametrize("data", [b"", bytes(100)])
@pytest.mark.parametrize("over_tcp", [False, True])
def test_unknown_options_are_ignored_and_not_echoed(code: int, data: bytes, over_tcp: bool) -> None:
    assert answer((code, data), over_tcp=over_tcp, identity=b"me") == EdnsOptions()


class TestNsid:
    def test_who_we_are_if_we_say(self) -> None:
        assert written(answer((OptionCode.NSID, b""), identity=b"ns1.hobbit")) == {3: b"ns1.hobbit"}

    def test_nothing_if_we_do_not(self) -> None:
        assert answer((OptionCode.NSID, b"")) == EdnsOptions()

    def test_nothing_to_who_does_not_ask(self) -> None:
        assert 3 not in written(answer((OptionCode.COOKIE, CLIENT), identity=b"ns1.hobbit"))


class TestKeepalive:
    def test_over_tcp_the_time_that_idle_connections_are_kept(self) -> None:
        (data,) = written(answer((OptionCode.KEEPALIVE, b""), over_tcp=True)).values()
        assert int.from_bytes(data, "big") / 10 == tcp.IDLE

    def test_never_over_udp(self) -> None:
        # RFC 7828 section 3.2.1
        assert answer((OptionCode.KEEPALIVE, b"")) == EdnsOptions()

    def test_never_unasked(self) -> None:
        assert 11 not in written(answer((OptionCode.COOKIE, CLIENT), over_tcp=True))


SOUND_SUBNETS = [
    "0.0.0.0/0",
    "192.0.2.0/24",
    "192.0.2.128/25",
    "192.0.2.1/32",
    "::/0",
    "2001:db8::/33",
    "2001:db8::1/128",
]

MALFORMED_SUBNETS = {
    "nothing": b"",
    "no scope": b"\0\1\x18",
    "a scope in a query": b"\0\1\x18\x18\xc0\0\2",
    "a byte too few": b"\0\1\x18\0\xc0\0",
    "a byte too many": b"\0\1\x18\0\xc0\0\2\0",
    "IPv4 of 33 bits": b"\0\1\x21\0\xc0\0\2\0\0",
    "IPv6 of 129 bits": b"\0\2\x81\0" + bytes(17),
    "bits behind the prefix": b"\0\1\x17\0\xc0\0\3",
    "an unknown family": b"\0\3\x08\0\xc0",
    "family 0 with an address": b"\0\0\x08\0\xc0",
    "no prefix, but a scope": b"\0\0\0\x18",
    "no prefix, but an address": b"\0\3\0\0\xc0",
}


class TestSubnet:
    @pytest.mark.parametrize("text", SOUND_SUBNETS)
    def test_is_echoed_with_scope_0(self, text: str) -> None:
        network = ipaddress.ip_network(text)
        option = dns.edns.ECSOption(str(network.network_address), network.prefixlen)
        answered = written(answer((OptionCode.SUBNET, option.to_wire() or b"")))
        assert list(answered) == [8]
        read = dns.edns.option_from_wire(dns.edns.OptionType.ECS, answered[8], 0, len(answered[8]))
        assert isinstance(read, dns.edns.ECSOption)
        assert (read.address, read.srclen, read.scopelen) == (str(network.network_address), network.prefixlen, 0)

    @pytest.mark.parametrize("family", [0, 1, 2, 3, 258, 65535])
    def test_no_address_at_all(self, family: int) -> None:
        # `dig +subnet=0`: "don't tell anybody my address" (RFC 7871 section 7.1.2)
        data = family.to_bytes(2, "big") + b"\0\0"
        assert written(answer((OptionCode.SUBNET, data))) == {8: data}

    @pytest.mark.parametrize("data", MALFORMED_SUBNETS.values(), ids=MALFORMED_SUBNETS)
    def test_a_malformed_one_is_a_format_error(self, data: bytes) -> None:
        found = answer((OptionCode.SUBNET, data), (OptionCode.COOKIE, CLIENT), (OptionCode.NSID, b""), identity=b"me")
        assert not found.sound
        assert found.written == b""

    @given(st.binary(max_size=24))
    def test_what_we_accept_is_sound_for_dnspython_too(self, data: bytes) -> None:
        if answer((OptionCode.SUBNET, data)).sound and data[2]:  # it knows only two families
            dns.edns.option_from_wire(dns.edns.OptionType.ECS, data, 0, len(data))


class TestCookie:
    def test_a_client_s_alone_gets_a_server_cookie(self) -> None:
        found = answer((OptionCode.COOKIE, CLIENT))
        assert found == EdnsOptions(found.written, True, asks_cookie=True, has_server_cookie=False, valid_cookie=False)
        assert written(found)[10][:8] == CLIENT
        assert len(written(found)[10]) == 24

    def test_with_the_server_cookie_it_is_valid(self) -> None:
        cookie = written(answer((OptionCode.COOKIE, CLIENT)))[10]
        found = answer((OptionCode.COOKIE, cookie))
        assert found == EdnsOptions(write_option(10, cookie), True, True, True, True)

    @pytest.mark.parametrize("length", [8, 16, 24, 31, 32])
    def test_a_server_cookie_that_is_not_ours_is_invalid_but_sound(self, length: int) -> None:
        found = answer((OptionCode.COOKIE, CLIENT + bytes(length)))
        assert (found.sound, found.has_server_cookie, found.valid_cookie) == (True, True, False)
        assert len(written(found)[10]) == 24

    @pytest.mark.parametrize("length", [0, 1, 7, 9, 15, 41, 100])
    def test_other_lengths_are_a_format_error(self, length: int) -> None:
        found = answer((OptionCode.COOKIE, bytes(length)))
        assert found == EdnsOptions(sound=False)

    def test_of_several_the_first_counts(self) -> None:
        # RFC 7873 section 5.2
        assert written(answer((OptionCode.COOKIE, CLIENT), (OptionCode.COOKIE, b"x")))[10][:8] == CLIENT
        assert not answer((OptionCode.COOKIE, b"x"), (OptionCode.COOKIE, CLIENT)).sound

    @pytest.mark.parametrize("data", [CLIENT, b"x"])
    def test_without_secrets_it_is_an_unknown_option(self, data: bytes) -> None:
        assert answer((OptionCode.COOKIE, data), jar=None) == EdnsOptions()


def test_all_together_and_the_cookie_last() -> None:
    asked = [
        (OptionCode.COOKIE, CLIENT),
        (65001, b"x"),
        (OptionCode.KEEPALIVE, b""),
        (OptionCode.SUBNET, bytes(4)),
        (OptionCode.NSID, b""),
    ]
    found = answer(*asked, over_tcp=True, identity=b"me")
    assert list(written(found)) == [3, 8, 11, 10]


OPTION = st.tuples(st.sampled_from([*OptionCode, 12, 65001]) | st.integers(0, 65535), st.binary(max_size=41))


@given(st.lists(OPTION, max_size=6), st.booleans())
def test_any_options_are_answered_or_malformed(asked: list[tuple[int, bytes]], over_tcp: bool) -> None:
    found = answer(*asked, over_tcp=over_tcp, identity=b"me")
    codes = {int(code) for code, _ in asked}
    assert set(written(found)) <= codes & set(map(int, OptionCode))
    assert found.valid_cookie <= found.has_server_cookie <= found.asks_cookie <= found.sound
    # None is longer than what a client sends, but for NSID, keepalive and our cookie
    assert len(found.written) <= sum(4 + len(data) for _, data in asked) + len(b"me") + 2 + 16
