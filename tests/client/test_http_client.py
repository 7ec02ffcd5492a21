"""The HTTP client: documents, event streams, credentials, and errors."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from lbdns.client import http_client
from lbdns.client.http_client import TOKEN_VARIABLE, HttpLocation, fetch, find_credentials, steer, stream_events
from lbdns.events.server_sent_events import ServerSentEvent
from lbdns.secrets.http_credentials import NO_CREDENTIALS, HttpCredentials
from lbdns_shared.errors import LbdnsError
from tests.client.http_servers import Answer, answering, server


def telling(handler: BaseHTTPRequestHandler) -> None:
    """Respond with the path and the Authorization header of the request."""
    told = {"path": handler.path, "authorization": handler.headers.get("Authorization")}
    answering(200, json.dumps(told).encode())(handler)


def test_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1/")  # must not receive a request
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with server(telling) as base:
        assert json.loads(fetch(HttpLocation.of_url(base + "/"), "/x?y=1")) == {"path": "/x?y=1", "authorization": None}


def test_credentials_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "fromenvironment")
    with server(telling) as base:
        locations = (
            HttpLocation.of_url(base),
            HttpLocation(base),
            HttpLocation(base, HttpCredentials("sam", "x")),
            HttpLocation(base, HttpCredentials(tokens=("abc", "def"))),
        )
        sent = [json.loads(fetch(location, "/"))["authorization"] for location in locations]
    assert sent == ["Bearer fromenvironment", None, "Basic c2FtOng=", "Bearer abc"]


def test_credentials_do_not_follow_a_redirection() -> None:
    with server(telling) as other, server(answering(302, b"", Location=other)) as base:
        assert json.loads(fetch(HttpLocation(base, HttpCredentials(tokens=("abc",))), "/"))["authorization"] is None


def test_where_credentials_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    (tmp_path / "token").write_text("one\ntwo\n")
    (tmp_path / "token").chmod(0o600)
    config = tmp_path / "lbdns.toml"
    config.write_text('[[zone]]\nname = "x"\nfile = "x"\n[web]\ntoken_file = "token"\n')
    assert find_credentials(config) == HttpCredentials(tokens=("one", "two"))
    assert find_credentials(tmp_path / "nothing") == find_credentials() == NO_CREDENTIALS
    monkeypatch.setenv(TOKEN_VARIABLE, "three")
    assert find_credentials(config) == find_credentials() == HttpCredentials(tokens=("three",))
    monkeypatch.setenv(TOKEN_VARIABLE, "no token")
    with pytest.raises(LbdnsError, match=f"{TOKEN_VARIABLE}: token 1 is not valid"):
        find_credentials()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (answering(401, b'{"error": "who?"}'), f"who\\?; set {TOKEN_VARIABLE}"),
        (answering(401, b"who?"), f"credentials are required; set {TOKEN_VARIABLE}"),
        (answering(403, b'{"error": "you may not"}'), "you may not$"),
        (answering(404, b"[]"), "the response is not from lbdns: /path returned 404"),
        (answering(500, b"\xff"), "the response is not from lbdns: /path returned 500"),
    ],
)
def test_refusals(answer: Answer, message: str) -> None:
    with server(answer) as base, pytest.raises(LbdnsError, match=message) as raised:
        fetch(HttpLocation.of_url(base), "/path")
    assert str(raised.value).startswith(f"{base}: ")


def test_nobody_there() -> None:
    with closing(socket.socket()) as taken:  # bound, not listening: refused
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(LbdnsError, match="no response: Connection refused"):
            fetch(HttpLocation.of_url(f"http://127.0.0.1:{taken.getsockname()[1]}"), "/")


def test_a_body_that_is_cut() -> None:
    with (
        server(answering(200, b"half", **{"Content-Length": "8"})) as base,
        pytest.raises(LbdnsError, match="the response is truncated"),
    ):
        fetch(HttpLocation.of_url(base), "/")


@pytest.mark.parametrize("base", ["", "127.0.0.1:1", "file:///etc/passwd", "http://"])
def test_no_url(base: str) -> None:
    with pytest.raises(LbdnsError, match="is not a URL such as http"):
        fetch(HttpLocation.of_url(base), "/")


def test_a_stream() -> None:
    body = b": keep-alive\n\nevent: status\ndata: {}\n\nevent: log\r\ndata: [1,\r\ndata: 2]\r\n\r\ndata: unfinished\n"
    with server(answering(200, body, "text/event-stream")) as base:
        events = stream_events(HttpLocation.of_url(base))
        assert [next(events), next(events)] == [ServerSentEvent("status", b"{}"), ServerSentEvent("log", b"[1,\n2]")]
        with pytest.raises(LbdnsError, match="closed the event stream"):
            next(events)


def test_a_silent_stream_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "SILENCE", 0.05)
    waiting = threading.Event()

    def silent(handler: BaseHTTPRequestHandler) -> None:
        answering(200, b"event: log\ndata: 1\n\n", "text/event-stream")(handler)
        handler.wfile.flush()
        waiting.wait(20)

    with server(silent) as base:
        events = stream_events(HttpLocation.of_url(base))
        assert next(events) == ServerSentEvent("log", b"1")
        with pytest.raises(LbdnsError, match="was interrupted: timed out"):
            next(events)
        waiting.set()


def test_no_stream() -> None:
    with server(answering(200, b"{}")) as base, pytest.raises(LbdnsError, match="is not an event stream"):
        next(stream_events(HttpLocation.of_url(base)))


def test_steering_posts_the_words() -> None:
    found: list[tuple[str, str, str | None]] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        found.append((handler.command, handler.path, handler.headers.get("X-Lbdns-Steer")))
        answering(200, b"{}")(handler)

    with server(answer) as url:
        steer(HttpLocation(url), "drain", member="web-1", reason="12 & more", ahead=True)
    assert found == [("POST", "/api/v1/drain?member=web-1&reason=12+%26+more&ahead=true", "1")]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (answering(409, b'{"error": "the last usable member"}'), "the last usable member"),
        (answering(500, b"oops"), "the response is not from lbdns: /api/v1/drain returned 500"),
        (lambda handler: handler.wfile.write(b"nonsense\r\n"), "no response: nonsense"),
    ],
)
def test_refused_steering_is_an_error(answer: Answer, message: str) -> None:
    with server(answer) as url, pytest.raises(LbdnsError, match=message):
        steer(HttpLocation(url), "drain", member="web-1")
