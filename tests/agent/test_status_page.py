"""Tests of fetching the status page from correct and from faulty servers."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.webserver.status_page import DEFAULT_URL, LARGEST, ServerStatusPage, parse_status_url, status_page_body
from tests.agent.waiting import PATIENCE, run_to_end, until
from tests.agent.web import Handler, answer, hanging, web_server
from tests.certificates import self_signed


def fetch(url: str, timeout: float = PATIENCE) -> bytes:
    return run_to_end(ServerStatusPage(parse_status_url(url)).fetch(), timeout)


def replying(*parts: bytes) -> Handler:
    def handle(connection: socket.socket, request: bytes) -> None:
        for part in parts:
            connection.sendall(part)
        connection.close()

    return handle


def test_a_page_is_fetched_and_the_request_is_well_formed() -> None:
    requests: list[bytes] = []

    def handle(connection: socket.socket, request: bytes) -> None:
        requests.append(request)
        connection.sendall(answer(b"BusyWorkers: 1\n"))  # and the connection stays open

    with web_server(handle) as url:
        assert fetch(f"{url}?refresh=5") == b"BusyWorkers: 1\n"
        host = url.split("/")[2]
    assert requests[0].startswith(b"GET /server-status?refresh=5&auto HTTP/1.0\r\nHost: " + host.encode() + b"\r\n")
    assert requests[0].endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "parts",
    [
        [b"HTTP/1.1 200 OK\r\n\r\npage\n"],  # without a length: until the end of the connection
        [b"HTTP/1.1 200 OK\r\nContent-", b"Length: 5\r\n", b"\r\npa", b"ge\n"],
        [b"HTTP/1.0 200\r\nCONTENT-LENGTH:5\r\n\r\npage\n"],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\npag\r\n2;x=y\r\ne\n\r\n0\r\n\r\n"],
    ],
)
def test_ways_to_send_a_page(parts: list[bytes]) -> None:
    with web_server(replying(*parts)) as url:
        assert fetch(url) == b"page\n"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([], "is not HTTP, or is incomplete"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf"], "the page is incomplete"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\npa"], "the page is incomplete"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\npage\n0\r\n"], "the page is incomplete"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\npage"], "the page is incomplete"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\npage"], "the page is incomplete"),
        ([b"HTTP/1.1 200 OK\r\nContent-"], "is not HTTP, or is incomplete"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], "is not HTTP"),
        ([answer(b"", "403 Forbidden")], "HTTP status 403; allow this host to read the page"),
        ([answer(b"", "404 Not Found")], "a2enmod status"),
        ([answer(b"", "401 Unauthorized")], "must not require a password"),
        ([answer(b"", "503 Busy")], "HTTP status 503"),
        ([answer(b"", "301 Moved", "Location: https://x/")], "use https://x/ instead"),
        ([b"HTTP/1.1 200 OK\r\n\r\n", b"x" * (LARGEST + 10)], "larger than 256 KiB"),
    ],
)
def test_answers_that_are_refused(parts: list[bytes], reason: str) -> None:
    with web_server(replying(*parts)) as url, pytest.raises(MissingValueError) as raised:
        fetch(url)
    assert reason in str(raised.value)
    assert url in str(raised.value)


def test_an_endless_page_ends() -> None:
    def endless(connection: socket.socket, request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * 10_000)

    with web_server(endless) as url, pytest.raises(MissingValueError, match="larger than 256 KiB"):
        fetch(url)


def test_a_page_that_trickles_for_ever_ends() -> None:
    def trickle(connection: socket.socket, request: bytes) -> None:
        while True:
            connection.sendall(b"H")
            time.sleep(0.01)

    with web_server(trickle) as url, pytest.raises(MissingValueError, match="no complete response within"):
        fetch(url, 0.2)


def test_a_server_that_hangs() -> None:
    start = time.monotonic()
    with web_server(hanging) as url, pytest.raises(MissingValueError, match="no complete response within"):
        fetch(url, 0.1)
    assert time.monotonic() - start < 30.0


def test_a_server_that_accepts_nothing() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        where = listening.getsockname()
        with contextlib.ExitStack() as stack:
            for _ in range(5):  # the queue is full: the next connection stays half open
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(where)
            with pytest.raises(MissingValueError, match="no complete response within"):
                fetch(f"http://127.0.0.1:{where[1]}/", 0.1)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(MissingValueError, match="Connection refused"):
        fetch(f"http://127.0.0.1:{port}/")


def test_by_name_once_the_name_is_looked_up() -> None:
    with web_server(replying(answer(b"page\n"))) as url:
        page = ServerStatusPage(parse_status_url(url.replace("127.0.0.1", "localhost")))
        until(lambda: page.addresses)
        assert bytes((127, 0, 0, 1)) in page.addresses
        # localhost may be ::1 first, where nobody listens: the next address is tried
        assert run_to_end(page.fetch()) == b"page\n"


def test_a_name_that_is_none() -> None:
    name = "x" * 64  # longer than a label may be: no name server is asked
    page = ServerStatusPage(parse_status_url(f"http://{name}/"))
    assert page.addresses == ()
    with pytest.raises(MissingValueError, match=name):
        run_to_end(page.fetch())


def test_an_interface_that_is_not_there() -> None:
    page = ServerStatusPage(parse_status_url("http://[fe80::1%nowhere]/"))
    assert page.addresses == ()
    with pytest.raises(MissingValueError, match="the address can't be used"):
        run_to_end(page.fetch())


def test_a_literal_address_is_known_at_once() -> None:
    assert ServerStatusPage(parse_status_url("http://[2001:db8::7]/")).addresses == (
        socket.inet_pton(socket.AF_INET6, "2001:db8::7"),
    )


def test_https_on_the_loopback_needs_no_authority(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                with context.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(1000)
                    secured.sendall(answer(b"secret\n" * 5000))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        page = ServerStatusPage(parse_status_url(f"https://127.0.0.1:{server.getsockname()[1]}/"))
        for _ in range(2):
            assert run_to_end(page.fetch()) == b"secret\n" * 5000
        thread.join(5)


@given(st.binary() | st.binary().map(b"HTTP/1.1 200 OK\r\n".__add__))
def test_any_answer_is_a_page_or_absent(text: bytes) -> None:
    with contextlib.suppress(MissingValueError):
        assert status_page_body(text, "http://x/") in text


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
