"""Log lines about dropped datagrams: they give advice, and their rate is limited."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from lbdns.events.event_log import EventLog
from lbdns_collector.reports.rejected_reports import ADVICE
from lbdns_collector.reports.report_socket import BATCH, LAST_BATCHES, LOG_INTERVAL, RejectionLog, ReportSocket
from lbdns_collector.reports.report_table import DUPLICATE
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.report import REASONS
from tests.collector.report_tables import make


@pytest.mark.parametrize("reason", [reason for reason in REASONS if reason != DUPLICATE])  # which is normal
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


class FloodedSocket(socket.socket):
    """A socket in which another datagram always waits, because they arrive faster than anybody can read them."""

    received = 0

    def recvfrom(self, *_: Any) -> tuple[bytes, tuple[str, int]]:
        self.received += 1
        assert self.received < 100_000, "reading never ends"
        return b"x", ("192.0.2.1", 9)


async def test_a_flood_cannot_keep_a_socket_from_being_closed() -> None:
    bound = FloodedSocket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.bind(("127.0.0.1", 0))
    flooded = ReportSocket(Endpoint(*bound.getsockname()), inherited=bound)
    loop = asyncio.get_running_loop()
    flooded.attach(make(), lambda: None, loop, EventLog())
    flooded.close(loop)
    assert bound.received == LAST_BATCHES * BATCH
    assert bound.fileno() == -1
