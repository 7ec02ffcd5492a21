"""Tests of the URLs of NATS servers: what they mean, and errors that reveal no credentials."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_shared.bus_url import BUS_PORT, BusServer, parse_bus_url
from lbdns_shared.endpoint import Endpoint


@pytest.mark.parametrize(
    ("text", "expected", "shown"),
    [
        ("nats://10.0.0.5", BusServer(Endpoint("10.0.0.5", BUS_PORT)), "nats://10.0.0.5:4222"),
        ("nats://10.0.0.5:14222/", BusServer(Endpoint("10.0.0.5", 14222)), "nats://10.0.0.5:14222"),
        (
            "tls://nats.example.net",
            BusServer(Endpoint("nats.example.net", BUS_PORT), True),
            "tls://nats.example.net:4222",
        ),
        ("nats://[2001:db8::1]:1", BusServer(Endpoint("2001:db8::1", 1)), "nats://[2001:db8::1]:1"),
        ("nats://u:p%40@h:1", BusServer(Endpoint("h", 1), False, "u", "p@"), "nats://h:1"),
        ("nats://secret@h:1", BusServer(Endpoint("h", 1), False, "secret"), "nats://h:1"),
    ],
)
def test_parse(text: str, expected: BusServer, shown: str) -> None:
    server = parse_bus_url(text)
    assert server == expected
    assert str(server) == shown


@pytest.mark.parametrize(
    ("url", "secret", "expected"),
    [
        ("nats://h", "", {}),
        ("nats://h", "word", {"auth_token": "word"}),
        ("nats://token@h", "", {"auth_token": "token"}),
        ("nats://user@h", "word", {"user": "user", "pass": "word"}),
        ("nats://user:own@h", "", {"user": "user", "pass": "own"}),
    ],
)
def test_credentials(url: str, secret: str, expected: dict[str, str]) -> None:
    assert parse_bus_url(url).credentials(secret) == expected


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is not the URL of a NATS server"),
        ("10.0.0.5:4222", "is not the URL of a NATS server; write nats://HOST"),
        ("http://u:hidden@10.0.0.5", "'http://10.0.0.5' is not the URL of a NATS server"),
        ("nats://", "is not the URL of a NATS server; write nats://HOST"),
        ("nats:/10.0.0.5", "is not the URL of a NATS server; write nats://HOST"),
        ("nats://u:hidden@", "is not a HOST:PORT pair"),
        ("nats://u:hidden@h:0", "must end after the host and the port"),
        ("nats://u:hidden@h:70000", "the port must be a number"),
        ("nats://u:hidden@h/subject", "must end after the host and the port"),
        ("nats://u:hidden@h?x=1", "must end after the host and the port"),
        ("nats://u:hid den@h", "contains spaces"),
        ("nats://u:hidden@[::1", "is not the URL of a NATS server"),
    ],
)
def test_errors(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=r"NATS server|write nats://") as caught:
        parse_bus_url(text)
    assert fault in str(caught.value)
    assert "hid" not in str(caught.value)


def test_the_representation_contains_no_credentials() -> None:
    assert "secret" not in repr(parse_bus_url("nats://secret-user:secret-word@h"))


@given(st.text())
def test_any_text_is_a_server_or_a_clear_error(text: str) -> None:
    for prefix in ("", "nats://", "tls://u:p@"):
        try:
            server = parse_bus_url(prefix + text)
        except ValueError:  # what the message says is tested above
            continue
        assert parse_bus_url(str(server)).endpoint == server.endpoint
