"""Messages about answers: conversion to plain data and back, and their parts."""

from __future__ import annotations

import contextlib

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from lbdns.server.answer_sharing.answer_messages import (
    MAX_COUNTS,
    MAX_LENGTH,
    AnswerMessage,
    in_messages,
    read_answer_message,
)

NUMBERS = st.integers(0, 2**63 - 1)
NAMES = st.text(max_size=20)
MESSAGES = st.builds(
    AnswerMessage,
    NAMES,
    NUMBERS,
    NUMBERS,
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0, 5),
    st.lists(NUMBERS, max_size=5).map(tuple),
    st.dictionaries(st.tuples(NAMES, NAMES, NAMES), NUMBERS, max_size=5),
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)


@given(MESSAGES)
def test_a_message_survives_the_way_over_the_bus(message: AnswerMessage) -> None:
    assert read_answer_message(msgpack.unpackb(msgpack.packb(message.body()))) == message


@given(st.sampled_from(list(AnswerMessage("ns", 1, 1, 1.0, 0.25).body())), PLAIN)
def test_other_data_raises_only_a_value_error(key: str, value: object) -> None:
    body = {**AnswerMessage("ns", 1, 1, 1.0, 0.25).body(), key: value}
    with contextlib.suppress(ValueError):
        read_answer_message(body)


def test_many_counts_are_split() -> None:
    counts = {("p" * 63, "least_charged", f"{i:0250}"): 2**20 for i in range(2 * MAX_COUNTS + 1)}
    parts = list(in_messages(counts))
    assert [len(part) for part in parts] == [MAX_COUNTS, MAX_COUNTS, 1]
    assert {key: count for part in parts for key, count in part.items()} == counts
    body = AnswerMessage("ns", 1, 1, 1.0, 0.25, tuple(range(2**62, 2**62 + 100)), parts[0]).body()
    assert len(msgpack.packb(body)) < MAX_LENGTH


def test_without_counts_one_message_shows_that_the_server_is_there() -> None:
    assert list(in_messages({})) == [{}]
