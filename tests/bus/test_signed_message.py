"""Tests of signed messages: what is opened, and what is refused."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.bus.signed_message import MAGIC, MessageKeys, RefusedMessageError
from lbdns_shared.keys import new_master_key

KEY, OTHER = new_master_key(), new_master_key()
KEYS = MessageKeys((KEY,), "snapshot")


@given(st.dictionaries(st.text(), st.integers(-(2**63), 2**64 - 1) | st.binary() | st.none()))
def test_a_message_is_opened_with_the_same_key(body: dict[str, Any]) -> None:
    assert KEYS.open(KEYS.seal(body)) == body


def test_all_keys_are_accepted_and_the_first_signs() -> None:
    both = MessageKeys((OTHER, KEY), "snapshot")
    assert both.open(KEYS.seal({"a": 1})) == {"a": 1}
    assert MessageKeys((OTHER,), "snapshot").open(both.seal({"a": 1})) == {"a": 1}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "malformed"),
        (MAGIC, "malformed"),
        (b"LBR1" + KEYS.seal({})[4:], "malformed"),
        (MessageKeys((OTHER,), "snapshot").seal({}), "bad_tag"),
        (MessageKeys((KEY,), "another purpose").seal({}), "bad_tag"),
        (KEYS.seal({"a": 1})[:-1], "bad_tag"),
        (KEYS.seal([1]), "malformed"),  # type: ignore[arg-type]
    ],
    ids=["empty", "no-key", "report", "other-key", "other-purpose", "torn", "no-map"],
)
def test_refusals(message: bytes, reason: str) -> None:
    with pytest.raises(RefusedMessageError) as caught:
        KEYS.open(message)
    assert caught.value.reason == reason


@given(st.data())
def test_a_changed_byte_is_noticed(data: st.DataObject) -> None:
    message = bytearray(KEYS.seal({"member": "gandalf.hobbit"}))
    place = data.draw(st.integers(0, len(message) - 1))
    message[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RefusedMessageError):
        KEYS.open(bytes(message))


def test_the_body_is_one_msgpack_map() -> None:
    assert msgpack.unpackb(KEYS.seal({"a": 1})[8:-16]) == {"a": 1}
