"""Tests of the messages with which collectors share snapshots: what is read is what was written, or is refused."""

from __future__ import annotations

import math
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.model.joined_members import JoinedMember
from lbdns.model.overrides import Override
from lbdns.model.snapshot import FailedCheck, Reading
from lbdns_collector.snapshots.snapshot_messages import (
    NO_RANK,
    ReportRank,
    SnapshotMessage,
    SnapshotRequest,
    read_message,
    read_request,
    reply_subject,
)
from tests.collector.snapshots.messages import NONCE, NOW, WALL, message, rank, reading

WHOLE = SnapshotMessage(
    "one",
    2**63,
    5,
    WALL,
    {
        "gandalf.hobbit": (reading(shadow_score=3, alarm="swapping"), rank(9, boot=2**64 - 1)),
        "frodo.hobbit": (Reading(NOW, 1.0, None, {}, failed_checks=(FailedCheck("web", "refused"),)), NO_RANK),
    },
    (Override("drain", "gandalf.hobbit", by="root"),),
    (JoinedMember("web", "web-1", ("127.0.1.1",)),),
    {"gandalf": [[7, 9, WALL, WALL, False], {}]},
    NONCE,
    3,
    True,
)


@pytest.mark.parametrize("sent", [WHOLE, message(1), message(2, gandalf=(50, 1))])
def test_a_message_is_read_as_it_was_written(sent: SnapshotMessage) -> None:
    body = msgpack.unpackb(msgpack.packb(sent.body(NOW)), strict_map_key=False)
    assert read_message(body, NOW) == sent


@pytest.mark.parametrize(
    "change",
    [
        {"boot": "1"}, {"seq": None}, {"time": math.nan}, {"collector": 1}, {"members": []}, {"nonce": "text"},
        {"members": {"a": [[1, 0, 50, {}, "", False], None]}}, {"members": {"a": [[], None]}},
        {"members": {"a": [[0, 1, 50, {}, "", False], [1, 2]]}}, {"overrides": [{}]}, {"joined": 5},
        {"is_last": 1}, {"records": []},
    ],
)  # fmt: skip
def test_invalid_messages(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_message(WHOLE.body(NOW) | change, NOW)


@given(st.dictionaries(st.sampled_from(["collector", "boot", "seq", "time", "members"]), st.none() | st.integers()))
def test_anything_else_is_refused_with_one_kind_of_error(body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_message(body, NOW)


@pytest.mark.parametrize("boot", [None, 7])
def test_a_request(boot: int | None) -> None:
    request = SnapshotRequest("0a1b", NONCE, WALL, boot)
    assert read_request(request.body()) == request
    assert request.reply_subject == reply_subject("0a1b") == "lbdns.snapshot.reply.0a1b"


@pytest.mark.parametrize("change", [{"receiver": "a.>"}, {"receiver": ""}, {"nonce": b""}, {"time": None}, {"to": "x"}])
def test_invalid_requests(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_request(SnapshotRequest("0a1b", NONCE, WALL).body() | change)


@pytest.mark.parametrize(
    ("one", "other", "newer"),
    [
        (rank(2), rank(1), True),
        (rank(1), rank(1), False),
        (rank(1), rank(2), False),
        (rank(1, boot=8, latest=WALL + 1), rank(9), True),
        (rank(9, boot=8, latest=WALL - 1), rank(1), False),
        (rank(0), NO_RANK, True),
        (NO_RANK, rank(0), False),
    ],
)
def test_which_report_is_newer(one: ReportRank, other: ReportRank, newer: bool) -> None:
    assert one.is_newer_than(other) == newer
