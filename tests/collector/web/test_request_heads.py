"""Tests of request heads: any division of the bytes gives the same heads, and lengths are limited."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_collector.web.request_heads import MAX_HEAD, HeadTooLongError, NotHttpError, RequestHeads, path_of

HEAD = b"GET /a?b HTTP/1.1\r\nHost: localhost\r\n\r\n"


def heads_of(pieces: list[bytes]) -> list[bytes]:
    heads = RequestHeads()
    found = []
    for piece in pieces:
        heads.feed(piece)
        while (head := heads.next()) is not None:
            found.append(head)
    return found


@given(
    st.lists(st.sampled_from([HEAD, b"\r\n" + HEAD, b"G\n\n", b"POST / HTTP/1.0\r\nA: b\n\r\n"]), max_size=5),
    st.lists(st.integers(0, 200)),
)
def test_any_division_gives_the_same_heads(sent: list[bytes], cuts: list[int]) -> None:
    data = b"".join(sent)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in itertools.pairwise(edges)]
    assert heads_of(pieces) == [head.lstrip(b"\r\n") for head in sent]


@given(st.binary(max_size=400), st.integers(1, 50))
def test_no_bytes_do_harm(data: bytes, step: int) -> None:
    try:
        found = heads_of([data[start : start + step] for start in range(0, len(data), step)])
    except NotHttpError:
        return
    assert sum(map(len, found)) <= len(data)
    for head in found:
        path_of(head)


@pytest.mark.parametrize("step", [1, 1000, 10**6])
@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
def test_length_is_limited(step: int, end: bytes) -> None:
    data = b"GET / HTTP/1.1\r\nA: " + b"x" * MAX_HEAD + end
    with pytest.raises(HeadTooLongError):
        heads_of([data[start : start + step] for start in range(0, len(data), step)])


def test_tls_is_not_http() -> None:
    with pytest.raises(NotHttpError):
        heads_of([b"\x16\x03\x01\x02\x00"])


@pytest.mark.parametrize(
    ("head", "path"),
    [
        (HEAD, "/a"),
        (b"GET /healthz HTTP/1.1\r\n\r\n", "/healthz"),
        (b"GET\r\n\r\n", ""),
        (b"GET /\xff HTTP/1.0\n\n", "/\xff"),
    ],
)
def test_paths(head: bytes, path: str) -> None:
    assert path_of(head) == path
