"""The line that HAProxy reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.agent_check.check_reply import check_reply


@pytest.mark.parametrize(
    ("percent", "order", "closed", "expected"),
    [
        (75, "", "", b"75%\n"),
        (None, "", "", b"up\n"),
        (75, "", "run_queue 130 > 100", b"0% # drain: run_queue 130 > 100\n"),
        (75, "maint", "", b"maint\n"),
        (75, "drain", "run_queue 130 > 100", b"drain\n"),
        (75, "ready", "", b"ready 75%\n"),
        (None, "ready", "", b"ready up\n"),
        (75, "ready", "the agent is stopping", b"ready 0% # drain: the agent is stopping\n"),
    ],
)
def test_reply(percent: int | None, order: str, closed: str, expected: bytes) -> None:
    assert check_reply(percent, order, closed) == expected


@given(st.none() | st.integers(1, 100), st.sampled_from(["", "maint", "drain", "ready"]), st.text(max_size=500))
def test_it_is_one_short_line(percent: int | None, order: str, closed: str) -> None:
    line = check_reply(percent, order, closed)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert len(line) < 256
    assert all(32 <= byte < 127 for byte in line[:-1])
