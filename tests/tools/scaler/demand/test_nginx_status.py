"""nginx's stub_status page."""

from __future__ import annotations

import asyncio

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_shared.nginx_stub_status import StubStatus
from lbdns_tools.free_ports import free_port
from lbdns_tools.scaler.demand import nginx_status
from lbdns_tools.scaler.demand.nginx_status import StubStatusPage


async def test_own_requests_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    # What nginx counts: 10 requests of clients, then 5 more, then a restart, and each request for the page
    pages = iter([StubStatus(11, 1), StubStatus(17, 4), StubStatus(18, 1), StubStatus(3, 1), StubStatus(4, 1)])
    monkeypatch.setattr(nginx_status, "_read", lambda _: next(pages))
    page = StubStatusPage("http://nginx/")
    found = [await page.read() for _ in range(5)]
    assert [status.requests for status in found] == [10, 15, 15, 2, 2]
    assert [status.in_progress for status in found] == [0, 3, 0, 0, 0]


async def test_no_response_is_an_error() -> None:
    url = f"http://127.0.0.1:{free_port()}/nginx_status"
    with pytest.raises(LbdnsError, match=r"no response: .*Connection refused"):
        await asyncio.wait_for(StubStatusPage(url).read(), 20)
