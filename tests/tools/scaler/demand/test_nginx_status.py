"""nginx's stub_status page."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_shared.errors import LbdnsError
from lbdns_tools.free_ports import free_port
from lbdns_tools.scaler.demand import nginx_status
from lbdns_shared.nginx_stub_status import StubStatus
from lbdns_tools.scaler.demand.nginx_status import StubStatusPage

PAGE = """\
Active connections: 291 
server accepts handled requests
 16630948 16630948 31070465 
Reading: 6 Writing: 179 Waiting: 106 
"""  # noqa: W291


def test_page() -> None:
    assert parse_stub_status(PAGE) == StubStatus(31_070_465, 185)


@pytest.mark.parametrize("text", ["", "<html>404</html>", PAGE.replace("Writing", "writing"), PAGE + "more"])
def test_what_is_not_a_page(text: str) -> None:
    with pytest.raises(ValueError, match="not a page of nginx's stub_status"):
        parse_stub_status(text)


@given(st.text(max_size=50), st.integers(0, len(PAGE)))
def test_anything_else_is_a_value_error(text: str, at: int) -> None:
    try:
        found = parse_stub_status(PAGE[:at] + text + PAGE[at:])
    except ValueError:
        return
    assert found.requests >= 0


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
