"""Tests of parsing complete and broken HTTP responses that arrive in arbitrary pieces."""

from __future__ import annotations

import pytest

from lbdns_tools.load.http_response import MAX_HEAD, HttpResponse, ProtocolError, request_bytes
from lbdns_tools.load.request_mix import RequestTarget

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#: response -> status, bytes of the body, whether the connection can be used again
WHOLE = {
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello": (200, 5, True),
    b"HTTP/1.1 200\r\ncontent-length:0\r\n\r\n": (200, 0, True),
    b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok": (200, 2, True),
    b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok": (200, 2, True),
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok": (200, 2, False),
    b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok": (200, 2, False),
    b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok": (200, 2, True),
    b"HTTP/1.1 204 No Content\r\n\r\n": (204, 0, True),
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n": (304, 0, True),
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno!": (404, 3, True),
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok": (200, 2, True),
    CHUNKED + b"5\r\nhello\r\n0\r\n\r\n": (200, 5, True),
    CHUNKED + b"5;a=b\r\nhello\r\nA \r\n0123456789\r\n0\r\nX: y\r\nZ: a\r\n\r\n": (200, 15, True),
    CHUNKED + b"0\r\n\r\n": (200, 0, True),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: a, chunked\r\nContent-Length: 7\r\n\r\n"
    b"1\r\nx\r\n0\r\n\r\n": (200, 1, False),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize("response", WHOLE)
def test_whole_in_pieces_of_any_size(response: bytes, size: int) -> None:
    reply = HttpResponse()
    pieces = [response[at : at + size] for at in range(0, len(response), size)]
    assert [reply.feed(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert (reply.status, reply.bytes, reply.keeps) == WHOLE[response]


@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.parametrize(
    "response", [b"HTTP/1.1 200 OK\r\n\r\nto the end", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nto the end"]
)
def test_body_until_the_connection_closes(response: bytes, size: int) -> None:
    reply = HttpResponse()
    assert not any(reply.feed(response[at : at + size]) for at in range(0, len(response), size))
    reply.end()
    assert (reply.status, reply.bytes, reply.keeps) == (200, 10, False)


def test_what_need_not_be_looked_at_is_skipped() -> None:
    reply = HttpResponse()
    assert reply.skippable == 0
    assert not reply.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx")
    assert reply.skippable == 999
    assert not reply.skip(900)
    assert reply.skip(99)
    assert reply.bytes == 1000


BROKEN = [
    b"SSH-2.0-OpenSSH\r\n\r\n",
    b"HTTP/2 200 OK\r\n\r\n",
    b"HTTP/1.1 999 Huh\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nX: " + b"x" * MAX_HEAD,
    CHUNKED + b"xyz\r\n",
    CHUNKED + b"2\r\nabc\r\n0\r\n\r\n",
    CHUNKED + b"1" * 5000,
    CHUNKED + b"0\r\n" + b"x: y\r\n" * 20_000,
    CHUNKED + b"0\r\n\r\nmore",
]


@pytest.mark.parametrize("response", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_response(response: bytes) -> None:
    with pytest.raises(ProtocolError):
        HttpResponse().feed(response)


@pytest.mark.parametrize("response", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_response_in_pieces(response: bytes) -> None:
    reply = HttpResponse()
    pieces = [response[at : at + 1000] for at in range(0, len(response), 1000)]
    with pytest.raises(ProtocolError):
        any(reply.feed(piece) for piece in pieces)


@pytest.mark.parametrize("response", WHOLE)
def test_cut_anywhere_is_an_error(response: bytes) -> None:
    for length in range(1, len(response)):
        reply = HttpResponse()
        assert not reply.feed(response[:length])
        with pytest.raises(ProtocolError):
            reply.end()


def test_request() -> None:
    assert request_bytes(RequestTarget("h", 8080, "/a?b"), keep_alive=False).startswith(
        b"GET /a?b HTTP/1.1\r\nHost: h:8080\r\n"
    )
    assert b"\r\nConnection: keep-alive\r\n" in request_bytes(RequestTarget("h", 80, "/"), keep_alive=True)
    assert request_bytes(RequestTarget("::1", 80, "/"), keep_alive=True).count(b"Host: [::1]\r\n") == 1
