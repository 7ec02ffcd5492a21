"""Tests of the order of messages in a session with a NATS server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lbdns_agent.bus.bus_error import BusError
from lbdns_agent.bus.bus_options import BusSecrets
from lbdns_agent.bus.bus_session import MOST_UNSENT, BusSession
from lbdns_shared.bus_url import parse_bus_url
from lbdns_shared.nkey import Nkey

SUBJECT = "lbdns.report.web.gandalf"
NKEY = Nkey(bytes(range(32)))


def session(url: str = "nats://gandalf:word@127.0.0.1") -> BusSession:
    return BusSession(parse_bus_url(url), BusSecrets(), "lbdns-agent gandalf")


def info(**fields: Any) -> bytes:
    return b"INFO " + json.dumps(fields).encode() + b"\r\n"


def sent(subject: BusSession) -> list[bytes]:
    """Return the lines that the session wants to send, and remove them."""
    lines = bytes(subject.outgoing).split(b"\r\n")[:-1]
    subject.outgoing.clear()
    return lines


def ready() -> BusSession:
    found = session()
    found.receive(info())
    assert found.receive(b"PONG\r\n") == ["ready"]
    sent(found)
    return found


def test_a_session_from_info_to_an_accepted_report() -> None:
    subject = session()
    assert sent(subject) == []
    assert subject.receive(info()) == []
    connect, ping = sent(subject)
    assert json.loads(connect.partition(b" ")[2])["pass"] == "word"
    assert ping == b"PING"
    assert not subject.is_ready
    assert subject.receive(b"PONG\r\n") == ["ready"]
    subject.publish(SUBJECT, b"abc")
    assert subject.has_unconfirmed
    subject.ping()
    assert sent(subject) == [b"PUB lbdns.report.web.gandalf 3", b"abc", b"PING"]
    assert subject.receive(b"PONG\r\n") == ["accepted"]
    assert not subject.has_unconfirmed


def test_a_refused_report_and_then_an_accepted_one() -> None:
    subject = ready()
    subject.publish(SUBJECT, b"1")
    subject.ping()
    violation = b"-ERR 'Permissions Violation for Publish to \"x\"'\r\n"
    assert subject.receive(violation + b"PONG\r\n") == ["refused"]
    assert subject.refusal == 'Permissions Violation for Publish to "x"'
    subject.publish(SUBJECT, b"2")
    subject.ping()
    assert subject.receive(b"PONG\r\n") == ["accepted"]


def test_a_pong_without_a_report_says_nothing_about_reports() -> None:
    subject = ready()
    subject.ping()
    subject.publish(SUBJECT, b"1")
    assert subject.receive(b"PONG\r\nPONG\r\n") == []
    assert subject.has_unconfirmed


def test_a_second_ping_waits_for_the_first_pong() -> None:
    subject = ready()
    subject.ping()
    subject.ping()
    assert sent(subject) == [b"PING"]


def test_the_servers_ping_is_answered() -> None:
    subject = ready()
    assert subject.receive(b"PING\r\n") == []
    assert sent(subject) == [b"PONG"]


def test_later_info_changes_nothing() -> None:
    subject = ready()
    assert subject.receive(info(tls_required=True, connect_urls=["10.0.0.1:4222"])) == []
    assert sent(subject) == []
    assert not subject.needs_tls


def with_nkey() -> BusSession:
    return BusSession(parse_bus_url("nats://h"), BusSecrets(nkey=NKEY), "lbdns-agent gandalf")


def test_an_nkey_signs_the_servers_random_number() -> None:
    subject = with_nkey()
    subject.receive(info(nonce="abc", tls_required=True))
    assert sent(subject) == []
    subject.continue_encrypted()
    connect, _ = sent(subject)
    fields = json.loads(connect.partition(b" ")[2])
    assert (fields["nkey"], fields["sig"]) == (NKEY.public_key, NKEY.sign("abc"))
    assert not {"user", "pass", "auth_token"} & set(fields)


@pytest.mark.parametrize("nonce", [{}, {"nonce": ""}, {"nonce": 1}, {"nonce": "\ud800"}, {"nonce": "é"}])
def test_a_server_that_asks_for_no_signature(nonce: dict[str, Any]) -> None:
    with pytest.raises(BusError, match="does not ask for a signature; configure the user's nkey there") as caught:
        with_nkey().receive(info(**nonce))
    assert caught.value.is_refusal


@pytest.mark.parametrize(
    ("url", "fields", "needs_tls"),
    [
        ("nats://h", {}, False),
        ("nats://h", {"tls_available": True}, False),
        ("nats://h", {"tls_required": True}, True),
        ("tls://h", {"tls_required": True}, True),
        ("tls://h", {"tls_available": True}, True),
    ],
)
def test_tls(url: str, fields: dict[str, bool], needs_tls: bool) -> None:
    subject = session(url)
    subject.receive(info(**fields))
    assert subject.needs_tls is needs_tls
    assert bool(subject.outgoing) is not needs_tls, "nothing is sent before the connection is encrypted"
    if needs_tls:
        subject.continue_encrypted()
        connect, _ = sent(subject)
        assert json.loads(connect.partition(b" ")[2])["tls_required"] is True


@pytest.mark.parametrize(
    ("url", "data", "fault", "is_refusal"),
    [
        ("tls://h", info(), "offers no TLS", True),
        ("tls://h", info(tls_required=True) + b"PONG\r\n", "unencrypted bytes before TLS", True),
        ("nats://h", info() + b"-ERR 'Authorization Violation'\r\n", "refuses the credentials", True),
        ("nats://h", info() + b"-ERR 'Authentication Timeout'\r\n", "refuses the credentials", True),
        ("nats://h", info() + b"-ERR 'User Authentication Expired'\r\n", "refuses the credentials", True),
        ("nats://h", info() + b"-ERR 'maximum connections exceeded'\r\n", "maximum connections exceeded", True),
        ("nats://h", info() + b"-ERR 'Stale Connection'\r\n", "Stale Connection", False),
        ("nats://h", b"SSH-2.0-OpenSSH\r\n", "not a NATS server", False),
    ],
)
def test_errors_that_end_the_session(url: str, data: bytes, fault: str, is_refusal: bool) -> None:
    with pytest.raises(BusError, match=fault) as caught:
        session(url).receive(data)
    assert caught.value.is_refusal is is_refusal


def test_a_server_that_asks_without_reading_cannot_fill_the_memory() -> None:
    subject = ready()
    with pytest.raises(BusError, match="does not read"):
        subject.receive(b"PING\r\n" * MOST_UNSENT)
    assert len(subject.outgoing) <= MOST_UNSENT
