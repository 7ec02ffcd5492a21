"""Tests of counting heartbeats without a reply."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lbdns.server.workers.heartbeat import HUNG, LATE, Heartbeat


def test_it_is_late_and_then_hung() -> None:
    heartbeat = Heartbeat()
    seen = []
    for _ in range(HUNG + 1):
        seen.append((heartbeat.silence, heartbeat.is_hung))
        heartbeat.beat()
    assert seen == [("", False)] * (LATE + 1) + [
        ("1 s", False), ("1.5 s", False), ("2 s", False), ("2.5 s", True)
    ]  # fmt: skip
    heartbeat.replied()
    assert (heartbeat.silence, heartbeat.is_hung) == ("", False)


@given(st.lists(st.booleans()))
def test_only_a_whole_row_without_a_reply_makes_it_hung(replies: list[bool]) -> None:
    heartbeat = Heartbeat()
    row = 0
    for replied in replies:
        assert heartbeat.is_hung == (row >= HUNG)
        heartbeat.beat()
        row += 1
        if replied:
            heartbeat.replied()
            row = 0
