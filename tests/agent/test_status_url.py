from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.webserver.status_url import DEFAULT_URL, parse_status_url


@pytest.mark.parametrize(
    ("text", "shown", "host", "port", "header"),
    [
        (DEFAULT_URL, DEFAULT_URL, "127.0.0.1", 80, "127.0.0.1"),
        ("http://127.0.0.1/server-status", DEFAULT_URL, "127.0.0.1", 80, "127.0.0.1"),
        ("HTTP://127.0.0.1", DEFAULT_URL, "127.0.0.1", 80, "127.0.0.1"),
        ("http://web1:8080/s?refresh=1", "http://web1:8080/s?refresh=1&auto", "web1", 8080, "web1:8080"),
        ("http://web1/s?refresh=1&auto", "http://web1/s?refresh=1&auto", "web1", 80, "web1"),
        ("http://web1/?", "http://web1/?auto", "web1", 80, "web1"),
        ("https://[::1]/status#top", "https://[::1]/status?auto", "::1", 443, "[::1]"),
        ("https://web1:80/", "https://web1:80/?auto", "web1", 80, "web1:80"),
    ],
)
def test_parse(text: str, shown: str, host: str, port: int, header: str) -> None:
    url = parse_status_url(text)
    assert (str(url), url.endpoint.host, url.endpoint.port, url.host_header) == (shown, host, port, header)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1/server-status",
        "ftp://127.0.0.1/",
        "http://",
        "http:///server-status",
        "http://user:secret@host/",
        "http://host:port/",
        "http://host/a b",
        "http://host/\r\nX: y",
        "http://host/\u00fc",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_status_url(text)


@given(st.text() | st.from_regex(r"https?://[a-z0-9.\[\]:]{1,20}(/[!-~]{0,10})?"))
def test_no_text_puts_a_line_of_its_own_into_the_request(text: str) -> None:
    with contextlib.suppress(ValueError):
        url = parse_status_url(text)
        assert not set(f"{url.target}{url.host_header}") & set("\r\n ")
        assert "auto" in url.target
