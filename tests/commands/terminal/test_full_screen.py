"""Tests of the byte sequences that terminals send for keys."""

from __future__ import annotations

import pytest

from lbdns.commands.terminal.full_screen import KeyDecoder


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"/fro\x7f\r", ["/", "f", "r", "o", "backspace", "enter"]),
        (b"\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1b[4~", ["up", "down", "pageup", "pagedown", "home", "end"]),
        (b"\x1b[1;5Aq", ["q"]),  # with Control: means nothing
        (b"\x1b[200~q", ["q"]),
        (b"\x00\x01\xc3\xbcq", ["q"]),
        (b"\x1bq", ["escape", "q"]),
        (b"\x1b\x1b[A", ["escape", "up"]),
    ],
)
def test_keys(data: bytes, keys: list[str]) -> None:
    assert KeyDecoder().feed(data) == keys
    pieces = KeyDecoder()
    assert [key for byte in data for key in pieces.feed(bytes((byte,)))] == keys, "also in pieces"
    assert not pieces.pending


@pytest.mark.parametrize("begin", [b"\x1b", b"\x1b["])
def test_the_escape_key_is_a_sequence_that_nothing_follows(begin: bytes) -> None:
    keys = KeyDecoder()
    assert keys.feed(begin) == []
    assert keys.pending
    assert keys.feed(b"")[:1] == ["escape"]
    assert not keys.pending
