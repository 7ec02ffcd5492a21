"""Log lines about dropped datagrams: they give advice, and their rate is limited."""

from __future__ import annotations

import pytest

from lbdns_collector.reports.rejected_reports import ADVICE
from lbdns_collector.reports.report_socket import LOG_INTERVAL, RejectionLog
from lbdns_shared.report import REASONS


@pytest.mark.parametrize("reason", REASONS)
def test_the_first_of_a_reason_is_logged(reason: str) -> None:
    line = RejectionLog().note(reason, "192.0.2.1", 100.0)
    assert line is not None
    assert reason in line
    assert "192.0.2.1" in line
    assert line.endswith(ADVICE[reason])


def test_then_one_a_minute_with_the_number() -> None:
    rejections = RejectionLog()
    told = [rejections.note("replay", "192.0.2.1", 100.0 + n) for n in range(int(LOG_INTERVAL))]
    assert [line is not None for line in told] == [True] + [False] * (len(told) - 1)
    line = rejections.note("replay", "192.0.2.1", 100.0 + LOG_INTERVAL)
    assert line is not None
    assert f"({int(LOG_INTERVAL)} since" in line
    assert rejections.note("bad_tag", "192.0.2.1", 100.0 + LOG_INTERVAL) is not None
