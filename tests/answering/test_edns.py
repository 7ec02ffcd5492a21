"""Compares how lbdns and dnspython read EDNS options and write OPT records."""

from __future__ import annotations

import dns.edns
import dns.flags
import dns.message
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.answering.edns import MAX_OPTIONS, Edns, read_options, write_opt

OPTIONS = st.lists(st.tuples(st.integers(0, 65535), st.binary(max_size=40)), max_size=6)


@settings(deadline=None)
@given(OPTIONS)
def test_reads_the_options_dnspython_writes(options: list[tuple[int, bytes]]) -> None:
    wire = b"".join(code.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data for code, data in options)
    assert read_options(wire) == tuple(options)


@pytest.mark.parametrize(
    "rdata",
    [b"\0", b"\0\x0a\0", b"\0\x0a\0\x01", b"\0\x0a\0\x08abcdefg", b"\0\x0a\0\0\0", b"\0\x0a\0\x01xy"],
    ids=["code cut", "length cut", "data missing", "data cut", "code of the second cut", "a byte too many"],
)
def test_options_that_do_not_fill_the_record_are_none(rdata: bytes) -> None:
    assert read_options(rdata) is None


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_options_or_none(rdata: bytes) -> None:
    options = read_options(rdata)
    if options is not None:
        assert sum(4 + len(data) for _, data in options) == len(rdata)


def test_more_options_than_anybody_means_are_none() -> None:
    assert read_options(b"\0\x0a\0\0" * MAX_OPTIONS) == ((10, b""),) * MAX_OPTIONS
    assert read_options(b"\0\x0a\0\0" * (MAX_OPTIONS + 1)) is None


@pytest.mark.parametrize("dnssec_ok", [False, True])
@pytest.mark.parametrize("rcode", [0, 3, 16, 23])
def test_writes_an_opt_that_dnspython_reads(dnssec_ok: bool, rcode: int) -> None:
    # A response whose header holds the lower four bits of the rcode
    header = (0x8000 | rcode & 0xF).to_bytes(2, "big")
    opt = write_opt(Edns(4096, 0, dnssec_ok, ((10, b"cookie!!"),)), rcode)
    message = dns.message.from_wire(b"\0\0" + header + b"\0\0\0\0\0\0\0\x01" + opt)
    assert message.edns == 0
    assert message.payload == 1232
    assert message.rcode() == rcode
    assert bool(message.ednsflags & dns.flags.DO) is dnssec_ok
    assert message.options == ()


@pytest.mark.parametrize("payload", [512, 900, 1232])
def test_says_what_we_receive_and_holds_the_options_it_is_given(payload: int) -> None:
    options = b"\0\3\0\2me" + b"\0\x0a\0\x0812345678"
    opt = write_opt(Edns(65535, 1, False), 0, payload, options)
    message = dns.message.from_wire(b"\0\0\x80\0\0\0\0\0\0\0\0\1" + opt)
    assert (message.edns, message.payload) == (0, payload), "version 0, whatever was asked"
    assert [(option.otype, option.to_wire()) for option in message.options] == [(3, b"me"), (10, b"12345678")]
