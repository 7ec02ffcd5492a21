"""Tests of sending one DNS query: which datagrams are accepted as the response, and what happens without a response."""

from __future__ import annotations

import socket

import pytest
from dnslib import RR, DNSRecord
from hypothesis import given
from hypothesis import strategies as st

from lbdns.client.dns_client import PAYLOAD, ask, make_query
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError
from tests.client.dns_servers import framed, scripted_server
from tests.end_to_end.process import eventually

RECORDS = "best.hobbit. 0 CNAME gandalf.hobbit.\ngandalf.hobbit. 0 IN A 192.0.2.3"


def response(query: bytes, records: str = RECORDS, *, truncated: bool = False) -> bytes:
    reply = DNSRecord.parse(query).reply()
    reply.header.tc = int(truncated)
    if not truncated:
        reply.add_answer(*RR.fromZone(records))
    return bytes(reply.pack())


def test_a_query_carries_edns_and_asks_for_recursion_unless_told_not_to() -> None:
    query = DNSRecord.parse(make_query("best.hobbit", "AAAA").pack())
    assert (str(query.q.qname), query.q.qtype, query.header.rd) == ("best.hobbit.", 28, 1)
    assert [(record.rtype, record.rclass) for record in query.ar] == [(41, PAYLOAD)]
    assert make_query("best.hobbit", recursion=False).header.rd == 0


@pytest.mark.parametrize("name", ["a..b", "x" * 64, ".".join(["abcdefgh"] * 30)])
def test_a_name_that_cannot_be_a_domain_name(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid domain name"):
        make_query(name)


def test_the_response_over_udp() -> None:
    with scripted_server(lambda query: [response(query)]) as server:
        reply = ask(make_query("best.hobbit"), server.endpoint)
    assert (reply.transport, reply.size, len(server.queries)) == ("UDP", len(reply.message.pack()), 1)
    assert [str(record.rdata) for record in reply.message.rr] == ["gandalf.hobbit.", "192.0.2.3"]


def test_over_tcp_alone() -> None:
    with scripted_server(lambda _: [], lambda query: framed(response(query))) as server:
        assert ask(make_query("best.hobbit"), server.endpoint, tcp=True).transport == "TCP"


def test_a_truncated_response_is_asked_for_again_over_tcp() -> None:
    with scripted_server(
        lambda query: [response(query, truncated=True)], lambda query: framed(response(query))
    ) as server:
        reply = ask(make_query("best.hobbit"), server.endpoint)
    assert (reply.transport, len(reply.message.rr), len(server.queries)) == ("TCP", 2, 2)


def test_datagrams_that_do_not_answer_the_query_are_ignored() -> None:
    def script(query: bytes) -> list[bytes]:
        other_id = bytes([query[0] ^ 1]) + response(query)[1:]
        other_name = query[:2] + response(make_query("other.hobbit").pack())[2:]
        return [b"", b"\0" * 3, query, other_id, other_name, response(query)]

    with scripted_server(script) as server:
        assert len(ask(make_query("best.hobbit"), server.endpoint).message.rr) == 2


@given(junk=st.binary(max_size=80))
def test_no_datagram_breaks_the_client(junk: bytes) -> None:
    with scripted_server(lambda query: [junk, query[:2] + junk, response(query)]) as server:
        query = make_query("best.hobbit")
        reply = ask(query, server.endpoint)
    assert reply.message.header.id == query.header.id


def test_a_lost_query_is_sent_again() -> None:
    seen: list[bytes] = []

    def script(query: bytes) -> list[bytes]:
        seen.append(query)
        return [response(query)] if len(seen) == 3 else []

    with scripted_server(script) as server:
        assert len(ask(make_query("best.hobbit"), server.endpoint, timeout=1.5).message.rr) == 2
    assert seen == [seen[0]] * 3


def test_no_response() -> None:
    with scripted_server(lambda _: []) as server:
        with pytest.raises(LbdnsError, match=r": no response to the query after 2 tries of 0\.01 s each"):
            ask(make_query("best.hobbit"), server.endpoint, timeout=0.01, tries=2)
        eventually(lambda: len(server.queries) == 2, "both queries have been received")


@pytest.mark.parametrize("tcp", [False, True])
def test_nothing_listens(tcp: bool) -> None:
    # A TCP socket that is bound but does not listen keeps its port refusing; a UDP port refuses when nothing is bound
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        if not tcp:
            bound.close()
        with pytest.raises(LbdnsError, match=f"127.0.0.1:{port}: Connection refused"):
            ask(make_query("best.hobbit"), Endpoint("127.0.0.1", port), tcp=tcp)


@pytest.mark.parametrize("sent", [b"\0\5abc", b"\0\3abc", b"\0"])
def test_something_else_over_tcp(sent: bytes) -> None:
    with (
        scripted_server(lambda _: [], lambda _: sent) as server,
        pytest.raises(LbdnsError, match="the reply over TCP is not a valid DNS message"),
    ):
        ask(make_query("best.hobbit"), server.endpoint, tcp=True)
