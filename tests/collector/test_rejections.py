"""Log lines about dropped datagrams: helpful, and few."""

from __future__ import annotations

import pytest

from lbdns.report import REASONS
from lbdns_collector.rejections import ADVICE, EVERY, Rejections


@pytest.mark.parametrize("reason", REASONS)
def test_first_of_a_reason_is_told(reason: str) -> None:
    line = Rejections().note(reason, "192.0.2.1", 100.0)
    assert line is not None
    assert reason in line
    assert "192.0.2.1" in line
    assert line.endswith(ADVICE[reason])


def test_then_one_a_minute_with_the_number() -> None:
    rejections = Rejections()
    told = [rejections.note("replay", "192.0.2.1", 100.0 + n) for n in range(int(EVERY))]
    assert [line is not None for line in told] == [True] + [False] * (len(told) - 1)
    line = rejections.note("replay", "192.0.2.1", 100.0 + EVERY)
    assert line is not None
    assert f"({int(EVERY)} since" in line
    assert rejections.note("bad_tag", "192.0.2.1", 100.0 + EVERY) is not None
