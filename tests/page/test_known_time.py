"""Tests of the time that the live page states for the problems: it claims no more than the page knows."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.browser import Browser, browsing
from tests.needs import needs
from tests.page.fake_farm import FakeFarm, demo_farm
from tests.page.fake_server import fake_server
from tests.page.test_problems import HIDDEN, logged

pytestmark = [needs(programs=("chromium",)), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


async def test_the_span_is_the_same_everywhere(browser: Browser) -> None:
    """A server that has run for five minutes knows no hour, neither in the header nor in the panel."""
    farm = demo_farm()
    farm.started = farm.time - 330
    logged(farm, 200, "state", "warning", "pool web: frodo is silent (was usable): no report for 3.0 s", "frodo")
    logged(farm, 100, "state", "info", "pool web: frodo is usable (was silent)", "frodo")
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.problems .ended').length === 1")
        span = re.search(r"in the last \d+ min$", await page.text("#health"))
        assert span
        assert await page.text("#health") == f"no problems now, 1 ended {span[0]}"
        assert f"Ended {span[0]}" in await page.text("#problems")


@pytest.mark.parametrize(
    ("uptime", "is_current", "expected"),
    [(4000, True, "no problems now or in the last hour"), (1500, True, "no problems now or in the last 25 min"),
     (61, True, "no problems now or in the last minute"), (4000, False, "no problems now")],
    ids=["hour", "since the start", "since just now", "a server without events"],
)  # fmt: skip
async def test_the_header_states_how_long_all_has_been_well(
    browser: Browser, uptime: float, is_current: bool, expected: str
) -> None:
    farm = demo_farm()
    farm.started, farm.is_current = farm.time - uptime, is_current
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until(f"document.getElementById('health').innerText === {expected!r}")
        assert await page.run(HIDDEN) is True
        assert await page.run("document.getElementById('health').href") == ""


async def test_many_events_do_not_hide_since_when_a_pool_fails_open(browser: Browser) -> None:
    """More members than the page requests events become silent after their pool has begun to fail open."""
    farm = FakeFarm({"web": [f"web-{number}" for number in range(1000)]})
    farm.silent.update(farm.pools["web"])
    farm.fails_open = True
    logged(farm, 600, "fail_open", "error", "pool web fails open: no member is usable")
    for name in farm.pools["web"]:
        logged(farm, 590, "state", "warning", f"pool web: {name} is silent (was usable): no report for 3.0 s", name)
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelector('.problem-head')?.innerText.includes('fail open since')")
        head = await page.text(".problem-head")
        assert re.fullmatch(r"web fail open since [\d:]+, for 1\d min", head), head
        assert page.errors == []


async def test_the_header_claims_no_more_than_the_page_knows(browser: Browser) -> None:
    """The page keeps a limited number of events, so a busy log may cover less than an hour."""
    farm = demo_farm()
    for i in range(1100):
        logged(farm, 2400 - i, "override", "info", f"override {i}", "bilbo")
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.getElementById('health').innerText.startsWith('no problems now or in the last ')")
        assert await page.text("#health") == "no problems now or in the last 38 min"  # of the newest 1000 events
        farm.replaced["frodo"] = {"guard": "needed although its server-status page cannot be read, for 85 s"}
        farm.replaced["bilbo"] = {"guard": "ramp 40%"}
        await server.send_status()
        await page.until("document.querySelectorAll('.problems li').length === 2")
        text = await page.text("#problems")
        assert "Problems\n1 now\n" in text
        assert "No other problem in the last 38 min" in text
        assert text.index("frodo") < text.index("Planned or temporary") < text.index("bilbo")
