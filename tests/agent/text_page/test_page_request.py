"""Requests for the text page: what is answered, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.text_page.page_request import is_complete, respond

GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:5555\r\n\r\n"


def status_and_body(request: bytes, names: tuple[str, ...] | None = ("web-1",)) -> tuple[int, bytes]:
    response = respond(request, names, lambda: "run_queue 3\n")
    head, _, body = response.partition(b"\r\n\r\n")
    assert b"\r\nConnection: close" in head
    if not request.startswith(b"HEAD"):
        assert f"\r\nContent-Length: {len(body)}\r\n".encode() in head
    return int(head.split()[1]), body


def test_the_page() -> None:
    response = respond(GET, ("web-1",), lambda: "run_queue 3\n")
    head, _, body = response.partition(b"\r\n\r\n")
    assert body == b"run_queue 3\n"
    assert head.split(b"\r\n")[0] == b"HTTP/1.1 200 OK"
    assert b"Content-Type: text/plain; version=0.0.4; charset=utf-8" in head
    assert b"\r\nContent-Length: 12\r\n" in head


@pytest.mark.parametrize(
    "request_text",
    [
        "GET / HTTP/1.0\r\n\r\n", "GET /?now=1 HTTP/1.1\r\nHost: [::1]:5555\r\n\r\n",
        "GET / HTTP/1.1\nHost: localhost\n\n",
        "GET / HTTP/1.1\r\nhOST: WEB-1.:5555\r\nAccept: */*\r\n\r\n", "GET / HTTP/1.1\r\nHost:web-1\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_answered(request_text: str) -> None:
    assert status_and_body(request_text.encode()) == (200, b"run_queue 3\n")


def test_head_gets_the_length_without_the_page() -> None:
    response = respond(GET.replace(b"GET", b"HEAD"), None, lambda: "run_queue 3\n")
    assert response.endswith(b"\r\n\r\n")
    assert b"\r\nContent-Length: 12\r\n" in response


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("POST / HTTP/1.1\r\nHost: web-1\r\n\r\n", 405),
        ("GET /metrics HTTP/1.1\r\nHost: web-1\r\n\r\n", 404),
        ("GET http://evil.example/ HTTP/1.1\r\nHost: web-1\r\n\r\n", 404),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        ("GET / HTTP/1.1\r\nHost: web-1\r\nHost: evil.example\r\n\r\n", 421),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", 421),
        ("GET /\r\n\r\n", 400),
        ("GET / HTTP/2\r\n\r\n", 400),
        ("\r\n\r\n", 400),
    ],
)
def test_what_is_refused(request_text: str, status: int) -> None:
    found, body = status_and_body(request_text.encode())
    assert found == status
    assert b"run_queue" not in body


def test_a_public_page_has_any_name() -> None:
    assert status_and_body(b"GET / HTTP/1.1\r\nHost: alias.example.net\r\n\r\n", None)[0] == 200


def test_when_a_request_is_complete() -> None:
    assert not any(is_complete(GET[:length]) for length in range(len(GET)))
    assert is_complete(GET)


@given(st.binary())
def test_anything_gets_a_response(data: bytes) -> None:
    assert status_and_body(data)[0] in (200, 400, 404, 405, 421)
