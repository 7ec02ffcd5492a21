"""Tests of server-sent events: writing them, and parsing them from pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.events import server_sent_events
from lbdns.events.server_sent_events import KEEP_ALIVE, ServerSentEvent, ServerSentEventReader, encode_event


def read(*pieces: bytes) -> list[ServerSentEvent]:
    reader = ServerSentEventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (b"data: x\n\n", [ServerSentEvent("message", b"x")]),
        (b"event: status\ndata: {}\n\n", [ServerSentEvent("status", b"{}")]),
        (b"data: {}\nevent: status\n\n", [ServerSentEvent("status", b"{}")]),
        (b"event: a\r\ndata: 1\r\n\r\n", [ServerSentEvent("a", b"1")]),
        (b"data: 1\ndata: 2\n\n", [ServerSentEvent("message", b"1\n2")]),
        (b"data:1\n\n", [ServerSentEvent("message", b"1")]),
        (b"data:  1\n\n", [ServerSentEvent("message", b" 1")]),
        (b"data\n\n", [ServerSentEvent("message", b"")]),
        (b": comment\n\n", []),
        (b"event: a\n\ndata: 1\n\n", [ServerSentEvent("message", b"1")]),
        (b"id: 7\nretry: 3\nmood: fine\ndata: 1\n\n", [ServerSentEvent("message", b"1")]),
        (b"data: a:b\n\n", [ServerSentEvent("message", b"a:b")]),
        (b"data: not ended\n", []),
    ],
)
def test_reading(text: bytes, events: list[ServerSentEvent]) -> None:
    assert read(text) == events
    assert read(*(text[i : i + 1] for i in range(len(text)))) == events


@given(
    st.lists(st.tuples(st.sampled_from(["status", "changes"]), st.binary(max_size=50)), max_size=5),
    st.lists(st.integers(1, 40), min_size=1),
)
def test_what_is_written_is_read(events: list[tuple[str, bytes]], sizes: list[int]) -> None:
    clean = [(name, data.translate(None, b"\r\n")) for name, data in events]
    text = KEEP_ALIVE.join(encode_event(name, data) for name, data in clean)
    pieces, at, turn = [], 0, 0
    while at < len(text):
        pieces.append(text[at : at + sizes[turn % len(sizes)]])
        at += sizes[turn % len(sizes)]
        turn += 1
    assert read(*pieces) == [ServerSentEvent(name, data) for name, data in clean]


@given(st.lists(st.binary(max_size=60), max_size=10))
def test_any_bytes_are_read(pieces: list[bytes]) -> None:
    assert all(isinstance(event, ServerSentEvent) for event in read(*pieces))


@pytest.mark.parametrize("piece", [b"x" * 30, b"data: " + b"x" * 30 + b"\n", b"data: 12345678\n" * 4])
def test_an_event_without_end_is_refused(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_sent_events, "MAX_EVENT", 20)
    with pytest.raises(ValueError, match="exceeds the limit"):
        read(piece)
