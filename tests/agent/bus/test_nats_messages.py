"""Tests of the messages of the NATS protocol: however they are divided, and whatever a server sends."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.bus.bus_error import BusError
from lbdns_agent.bus.nats_messages import (
    LONGEST_LINE,
    MessageReader,
    ServerMessage,
    connect_message,
    publish_message,
    readable,
)

STREAM = b"INFO {\"tls_required\":true} \r\n+OK\r\nping\r\nPONG\r\n-ERR 'Stale Connection'\r\nPING\n"
MESSAGES = [
    ServerMessage("INFO", {"tls_required": True}),
    ServerMessage("+OK", {}),
    ServerMessage("PING", {}),
    ServerMessage("PONG", {}),
    ServerMessage("-ERR", {}, "Stale Connection"),
    ServerMessage("PING", {}),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_messages_however_the_bytes_are_divided(cuts: list[int]) -> None:
    reader = MessageReader()
    found: list[ServerMessage] = []
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(STREAM)]):
        found += reader.read(STREAM[begin:end])
    assert found == MESSAGES
    assert not reader.has_more


def test_the_beginning_of_a_message_waits() -> None:
    reader = MessageReader()
    assert list(reader.read(b"PIN")) == []
    assert reader.has_more
    assert list(reader.read(b"G\r\n")) == [ServerMessage("PING", {})]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "'HTTP/1.1 400 Bad Request', so it is not a NATS server"),
        (b"INFO []\r\n", "it is not a NATS server"),
        (b"INFO {\r\n", "it is not a NATS server"),
        (b"INFO " + b"[" * 100_000 + b"\r\n", "it is not a NATS server"),
        (b"MSG a 1 3\r\nabc\r\n", "it is not a NATS server"),
        (b"\r\n", "it is not a NATS server"),
        (b"x" * (LONGEST_LINE + 1), "a line of more than"),
    ],
)
def test_errors(data: bytes, fault: str) -> None:
    with pytest.raises(BusError) as caught:
        list(MessageReader().read(data))
    assert fault in str(caught.value)


@given(st.binary())
def test_any_bytes_are_messages_or_an_error(data: bytes) -> None:
    reader = MessageReader()
    try:
        for message in reader.read(data):
            assert message.kind in ("INFO", "PING", "PONG", "+OK", "-ERR")
    except BusError as error:
        fault = str(error)
    else:
        fault = ""
    assert fault.isprintable()


@given(st.binary())
def test_readable_text_is_short_and_printable(text: bytes) -> None:
    found = readable(text)
    assert found.isprintable()
    assert len(found) <= 200


def test_connect() -> None:
    message = connect_message('a "name"', "1.0", True, {"user": "ü", "pass": "p\r\nPUB x 0"})
    assert message.startswith(b"CONNECT ")
    assert message.count(b"\r\n") == 1
    fields = json.loads(message[len(b"CONNECT ") :])
    assert (fields["user"], fields["pass"]) == ("ü", "p\r\nPUB x 0")
    assert (fields["verbose"], fields["pedantic"], fields["tls_required"]) == (False, False, True)


def test_publish() -> None:
    assert publish_message("a.b", b"12\r\n3") == b"PUB a.b 5\r\n12\r\n3\r\n"
