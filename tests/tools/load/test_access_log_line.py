"""Tests of parsing access log lines."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.load.access_log_line import LoggedRequest, parse_line, split_line
from lbdns_tools.load.request_mix import parse_url

TIME = b"[28/Aug/1995:00:00:34 -0400]"
UNIX = 809_582_434


def line(request: bytes, end: bytes = b" 200 1839\n") -> bytes:
    return b"204.249.225.59 - - " + TIME + b' "' + request + b'"' + end


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (
            line(b"GET /pub/rmharris/catalogs/dawsocat/intro.html HTTP/1.0"),
            "/pub/rmharris/catalogs/dawsocat/intro.html",
        ),
        (line(b"GET /"), "/"),  # HTTP/0.9
        (line(b"GET /a b.html HTTP/1.0"), "/a%20b.html"),
        (line(b"GET /a b.html"), "/a%20b.html"),
        (line(b"GET /a?b=c&d=%41 HTTP/1.1"), "/a?b=c&d=%41"),
        (line(b"GET /caf\xe9/\x80\x01 HTTP/1.0"), "/caf%E9/%80%01"),
        (line(b'GET /"a".gif HTTP/1.0'), "/%22a%22.gif"),
        (line(b'GET /\\"a\\".gif HTTP/1.0'), "/%22a%22.gif"),
        (line(b"GET /\\x22a\\xE9\\\\ HTTP/1.1"), "/%22a%E9%5C"),
        (line(b"GET /a#top HTTP/1.0"), "/a%23top"),
        (line(b"GET http://www.example.org:80/a?b HTTP/1.1"), "/a?b"),
        (line(b"GET http://www.example.org HTTP/1.1"), "/"),
        (line(b"GET / HTTP/1.0", b" 304 -"), "/"),
        (line(b"GET / HTTP/1.1", b' 200 5 "http://a/" "Mozilla/5.0 (X11; \\"x\\")"\r\n'), "/"),
        (line(b"GET / HTTP/1.0").replace(b"Aug", b"aug"), "/"),
        (b"a.example:80 10.0.0.1 - a user " + TIME + b' "GET / HTTP/2.0" 200 5 "-" "-" 0.004\n', "/"),
    ],
)
def test_requests(text: bytes, path: str) -> None:
    assert parse_line(text) == LoggedRequest(UNIX, "GET", path)


@pytest.mark.parametrize("method", ["POST", "HEAD", "OPTIONS", "CONNECT"])
def test_other_methods_have_no_path(method: str) -> None:
    assert parse_line(line(f"{method} * HTTP/1.1".encode())) == LoggedRequest(UNIX, method, "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not in the common or combined log format"),
        (b"x" * 100, "not in the common or combined log format"),
        (b'a - - [28/Aug/1995:00:00:34 -0400] "GET / HTTP/1.0" 200', "not in the common or combined log format"),
        (b'a - - [28/Aug/1995:00:00:34 -0400] "GET / HTTP/1.0" OK 5', "not in the common or combined log format"),
        (line(b"-"), "the request is not METHOD PATH"),
        (line(b"\x16\x03\x01"), "the request is not METHOD PATH"),
        (line(b"GET index.html HTTP/1.0"), "does not start with a slash"),
        (line(b"GET http:///a HTTP/1.0"), "does not start with a slash"),
        (b'a - - [1995-08-28 00:00:34] "GET / HTTP/1.0" 200 5', "the time is not DAY/MONTH/YEAR:HH:MM:SS ZONE"),
        (b'a - - [28/Foo/1995:00:00:34 -0400] "GET / HTTP/1.0" 200 5', "the time is not"),
        (b'a - - [31/Feb/1995:00:00:34 -0400] "GET / HTTP/1.0" 200 5', "day"),
        (b'a - - [28/Aug/1995:24:00:34 -0400] "GET / HTTP/1.0" 200 5', "hour"),
        (b'a - - [28/Aug/1995:00:00:34 +9900] "GET / HTTP/1.0" 200 5', "offset"),
    ],
)
def test_bad_lines(text: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_line(text)


@pytest.mark.parametrize("request_line", [b"-", b"\x16\x03\x01", b"GET index.html", b""])
def test_malformed_requests_can_be_counted(request_line: bytes) -> None:
    assert split_line(line(request_line)) == (UNIX, request_line)


@given(
    st.binary(max_size=300) | st.builds(line, st.binary(max_size=100)) | st.builds(line, st.just(b"GET "), st.binary())
)
def test_any_bytes_are_parsed_or_raise_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        parse_line(text)


@given(st.binary(max_size=100).filter(lambda path: b'" 2' not in path))
def test_a_path_of_any_bytes_makes_a_valid_url(path: bytes) -> None:
    with contextlib.suppress(ValueError):  # for example, a request of two lines
        request = parse_line(line(b"GET /" + path + b" HTTP/1.0"))
        found = parse_url(f"http://a{request.path}")
        assert found.path.startswith("/")
        assert str(found).isascii()
        assert not set(str(found)) & set(' "\x00\r\n#')


@given(st.integers(0, 4_102_444_799), st.integers(-23 * 60, 23 * 60))
def test_times_in_every_zone(time: int, minutes: int) -> None:
    from datetime import datetime, timedelta, timezone

    moment = datetime.fromtimestamp(time, timezone(timedelta(minutes=minutes)))
    stamp = moment.strftime("%d/%b/%Y:%H:%M:%S %z").encode()
    assert parse_line(b"a - - [" + stamp + b'] "GET / HTTP/1.0" 200 5\n').time == time
