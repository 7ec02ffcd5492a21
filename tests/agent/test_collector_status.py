"""Tests of ``--status-url``: what the agent asks the collector, and what it logs."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from lbdns_agent.collector_status import (
    CONFIRM,
    PERIOD,
    QUOTED,
    SETTLE,
    CollectorStatus,
    find_problem,
    parse_collector_url,
    read_response,
)
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_shared.report import AgentKey
from tests.agent.web import answer, web_server

NOW = 1_800_000_000.0  # Unix seconds
BOOT = 2**64 - 2
KEY = AgentKey(b"\x0b\xad\xc0\xde", "gandalf", bytes(32))


def document(**changes: Any) -> dict[str, Any]:
    return {
        "host": "gandalf", "known": True, "time": NOW, "accepted_age_s": 0.5, "boot": f"{BOOT:016x}", "rejected": [],
        **changes,
    }  # fmt: skip


def rejected(reason: str, **changes: Any) -> dict[str, Any]:
    entry = {"source": "192.0.2.1", "host": "gandalf", "reason": reason, "advice": "some advice", "age_s": 0.5}
    return document(accepted_age_s=None, boot="", rejected=[{**entry, **changes}])


@pytest.mark.parametrize(
    ("found", "kind", "words"),
    [
        (document(), "", ""),
        (document(accepted_age_s=3.9), "", ""),
        (document(known=False, accepted_age_s=None), "unknown_host", "named 'gandalf'; check --name"),
        (document(boot="0" * 16), "other_agent", "another agent reports as 'gandalf'"),
        (document(accepted_age_s=100.0), "nothing", "no report from this host has reached the collector"),
        (document(accepted_age_s=None, boot=""), "nothing", "check --collector"),
        (rejected("bad_tag"), "bad_tag", "the signature with key 0badc0de is not valid for 'gandalf'"),
        (rejected("bad_tag"), "bad_tag", "lbdns keygen --agent gandalf"),
        (rejected("clock", age_s=1) | {"time": NOW - 3600.4}, "clock", "clock is 3600 s ahead of the collector's"),
        (rejected("clock", age_s=1) | {"time": NOW + 31.0}, "clock", "clock is 31 s behind the collector's"),
        (rejected("replay"), "replay", "replay: some advice"),
        (rejected("a reason of a later version"), "a reason of a later version", "some advice"),
        (rejected("bad_tag", host="frodo"), "nothing", "no report from this host"),
        (rejected("bad_tag", age_s=300.0), "nothing", "no report from this host"),
        (rejected("rate", advice="\x1b[31m" + "x" * 1000), "rate", "rate: ?[31mxxx"),
    ],
)
def test_why_reports_are_not_accepted(found: Any, kind: str, words: str) -> None:
    problem = find_problem(json.loads(json.dumps(found)), "gandalf", BOOT, 1.0, KEY, NOW)
    assert problem.kind == kind
    assert words in problem.text
    assert problem.text.isprintable()
    assert len(problem.text) <= 2 * QUOTED


def test_unsigned_reports_from_a_wrong_address() -> None:
    problem = find_problem(rejected("bad_tag"), "gandalf", BOOT, 1.0, None, NOW)
    assert "unsigned and come from 192.0.2.1" in problem.text
    assert "use --key-file" in problem.text


@pytest.mark.parametrize(
    "found",
    [
        None, 5, [], {}, document(time=None), document(time="x"), document(accepted_age_s="x"),
        document(rejected=5, accepted_age_s=None),
        rejected("x", age_s=None), rejected("x", age_s="1"), document(rejected=[5], accepted_age_s=None),
        document(rejected=[{}], accepted_age_s=None), document(time=10**400),
    ],
)  # fmt: skip
def test_an_invalid_document_is_an_error(found: Any) -> None:
    with pytest.raises(ValueError, match=r"not a valid response|could not convert"):
        find_problem(found, "gandalf", BOOT, 1.0, KEY, NOW)


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (b"", "not HTTP"),
        (b"220 mail ready\r\n", "not HTTP"),
        (answer(b"{}", "403 Forbidden"), "HTTP status 403$"),
        (answer(b'{"error": "not allowed\\u001b"}', "403 Forbidden"), r"HTTP status 403: not allowed\?$"),
        (answer(b"<html>", "404 Not Found"), "HTTP status 404$"),
        (answer(b"<html>"), "not from lbdns"),
        (answer(b"[" * 100_000), "not from lbdns"),
        (answer(b"[]"), "not from lbdns"),
    ],
)
def test_a_response_that_is_no_document(response: bytes, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        read_response(response)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://ns1:8053", "http://ns1:8053"),
        ("http://ns1", "http://ns1"),
        ("https://[2001:db8::1]:8053/", "https://[2001:db8::1]:8053"),
        ("http://proxy/lbdns/", "http://proxy/lbdns"),
    ],
)
def test_urls(text: str, url: str) -> None:
    assert str(parse_collector_url(text)) == url


@pytest.mark.parametrize(
    "text",
    ["", "ns1:8053", "ftp://ns1", "http://", "http://u:p@ns1", "http://ns1/?x", "http://ns1/#x", "http://ns1:x", "http://ns1/\xe9"],
)  # fmt: skip
def test_what_is_no_url(text: str) -> None:
    with pytest.raises(ValueError, match=r"URL|must not contain|as %XX|HOST:PORT|the port"):
        parse_collector_url(text)


class Asked:
    """A fake collector, and the status that asks it. The test sets the time and the response."""

    def __init__(self, url: str, token: str = "") -> None:
        self.now = 0.0
        self.tasks = SensorTasks()
        status = CollectorStatus(
            parse_collector_url(url), "gandalf", BOOT, 1.0, lambda: KEY, token, clock=lambda: self.now
        )
        self.task = self.tasks.add(status.poll, 20.0, awaited=False)

    def ask(self, after: float) -> None:
        """Take a sample ``after`` seconds later, and wait until the question, if there is one, has been answered."""
        self.now += after
        self.tasks.start()
        while self.task.busy:
            self.tasks.wait(0.0)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "lbdns.agent")
    return caplog


@pytest.fixture
def responses() -> list[bytes]:
    """The response that the collector sends (the last one)."""
    return []


@pytest.fixture
def requests() -> list[bytes]:
    return []


@pytest.fixture
def collector(responses: list[bytes], requests: list[bytes]) -> Iterator[str]:
    def handle(connection: socket.socket, request: bytes) -> None:
        requests.append(request)
        connection.sendall(responses[-1])

    with web_server(handle) as url:
        yield url.removesuffix("/server-status")


def body(value: Any) -> bytes:
    # The agent compares the collector's time with its own
    return answer(json.dumps(value).encode())


def test_one_line_for_a_problem_and_one_for_its_end(
    collector: str, responses: list[bytes], requests: list[bytes], log: pytest.LogCaptureFixture
) -> None:
    asked = Asked(collector)
    responses.append(body(rejected("bad_tag")))
    asked.ask(SETTLE - 0.1)
    assert requests == [], "the first reports have not arrived yet"
    asked.ask(0.2)
    assert len(requests) == 1
    assert requests[0].startswith(b"GET /api/v1/reports?host=gandalf HTTP/1.0\r\n")
    assert log.messages == [], "it may be over soon"
    for _ in range(3):
        asked.ask(2 * PERIOD)
    assert len(log.messages) == 1
    assert "the collector does not accept this host's reports: bad_tag" in log.messages[0]
    responses.append(body(rejected("replay")))
    asked.ask(2 * PERIOD)
    assert "replay: some advice" in log.messages[1]
    responses.append(body(document()))
    for _ in range(2):
        asked.ask(2 * PERIOD)
    assert log.messages[2:] == [f"--status-url {collector}: the collector now accepts this host's reports"]


def test_a_problem_that_ends_at_once_is_not_logged(
    collector: str, responses: list[bytes], requests: list[bytes], log: pytest.LogCaptureFixture
) -> None:
    asked = Asked(collector)
    responses.append(body(rejected("bad_tag")))
    asked.ask(SETTLE)
    responses.append(body(document()))
    asked.ask(CONFIRM)
    assert len(requests) == 2
    asked.ask(1.0)
    assert len(requests) == 2, "the next question is only due after the period"
    assert log.messages == []


def test_a_collector_that_cannot_be_asked(log: pytest.LogCaptureFixture) -> None:
    with socket.socket() as bound:  # not listening, so connections are refused
        bound.bind(("127.0.0.1", 0))
        asked = Asked(f"http://127.0.0.1:{bound.getsockname()[1]}")
        for _ in range(4):
            asked.ask(2 * PERIOD)
    assert len(log.messages) == 1
    assert "can't find out whether the collector accepts this host's reports: Connection refused" in log.messages[0]


def test_a_token_is_sent(collector: str, responses: list[bytes], requests: list[bytes]) -> None:
    responses.append(body(document()))
    Asked(collector, "secret").ask(SETTLE)
    assert b"\r\nAuthorization: Bearer secret\r\n" in requests[0]


def test_a_report_does_not_wait_for_the_collector() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        asked = Asked(f"http://127.0.0.1:{silent.getsockname()[1]}")
        asked.now += SETTLE
        asked.tasks.start()
        assert asked.task.busy
        polls: list[float] = []
        asked.tasks._poll = lambda end, alert: bool(polls.append(end))  # type: ignore[method-assign, func-returns-value]
        asked.tasks.settle(float("inf"))
        assert polls == []
