"""Tests of the live page's table of a pool's sites."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.browser import Browser, browsing
from tests.needs import needs
from tests.page.fake_farm import FakeFarm
from tests.page.fake_server import fake_server
from tests.page.page_checks import faint_texts, overflow
from tests.page.test_accessibility import violations

pytestmark = [needs(programs=("chromium",)), pytest.mark.asyncio(loop_scope="module")]

#: Script: the texts of the cells, by row
ROWS: Final = "[...document.querySelectorAll('.sites tbody tr')].map(row => [...row.cells].map(cell => cell.innerText))"
WARNED: Final = "[...document.querySelectorAll('.sites .warn')].map(cell => cell.innerText)"
IS_SHOWN: Final = "document.querySelector('.sites')?.checkVisibility() ?? false"
NO_VALUE: Final = "\u2013"
LESS: Final = "has less headroom than other sites"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


def site(name: str, members: Sequence[str], usable: int, utilization: float | None) -> dict[str, Any]:
    return {"name": name, "members": list(members), "usable": usable, "utilization": utilization}


def order(names: str, shares: Sequence[float], why: str = "") -> dict[str, Any]:
    return {"sites": names.split(), "shares": list(shares), "why": why}


def farm_with_sites() -> FakeFarm:
    """Return a farm in which one site is full, one has no usable member, and none reports a load or is near clients."""
    members = ["b1", "b2", "p1", "p2", "t1"]
    farm = FakeFarm({"web": members, "shop": ["s1"]})
    farm.sites["web"] = {
        "sites": [
            site("berlin", members[:2], 2, 0.93), site("paris", members[2:4], 0, None),
            site("tokyo", members[4:], 1, None),
            site("a-site-with-a-name-as-long-as-a-label-of-dns-may-be-63-characters", [], 0, None),
        ],
        "orders": [
            order("berlin paris tokyo", [0.742, 0.0, 0.258], LESS), order("berlin tokyo paris", [0.9, 0.1, 0.0], LESS),
            order("paris berlin tokyo", [0.0, 0.99, 0.01], "has no usable member"),
            order("tokyo berlin paris", [0.99, 0.01, 0.0]),
        ],
    }  # fmt: skip
    return farm


async def test_a_row_for_each_site(browser: Browser) -> None:
    async with fake_server(farm_with_sites(), 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.sites tbody tr').length === 4")
        rows = await page.run(ROWS)
        assert rows[:3] == [
            ["berlin", "2 of 2", "93 %", "74 %", "26 % tokyo: the site has less headroom than other sites"],
            ["paris", "0 of 2", NO_VALUE, "0 %", "99 % berlin: the site has no usable member"],
            ["tokyo", "1 of 1", "unknown", "99 %", NO_VALUE],
        ]
        assert rows[3][3:] == [NO_VALUE, "no clients are near it"]
        assert await page.run(WARNED) == ["93 %", "0 of 2"]
        server.farm.sites["web"]["sites"][0]["utilization"] = 0.5
        server.farm.sites["web"]["orders"][0] = order("berlin paris tokyo", [0.95, 0.0, 0.05], "takes its clients back")
        await server.send_status()
        await page.until("document.querySelector('.sites tbody td:nth-child(4)').innerText === '90 %'")
        assert await page.run(WARNED) == ["0 of 2"]
        assert page.errors == []


@pytest.mark.parametrize("is_current", [True, False], ids=["no sites", "an older server"])
async def test_a_pool_without_sites_has_no_table(browser: Browser, is_current: bool) -> None:
    farm = FakeFarm({"web": ["bilbo", "frodo", "gandalf"]}, is_current=is_current)
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.members tbody tr').length === 3")
        assert await page.run(IS_SHOWN) is False
        # Older servers do not have everything that the page loads
        assert [error for error in page.errors if "404" not in error] == []


@pytest.mark.parametrize(("width", "dark"), [(320, False), (390, True), (820, False), (1400, True)])
async def test_it_fits_the_screen_and_is_accessible(browser: Browser, width: int, dark: bool) -> None:
    async with fake_server(farm_with_sites(), 60) as server, browser.page(width=width, dark=dark) as page:
        await page.emulate(width, 900, dark=dark, phone=width < 820)
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.sites tbody tr').length === 4")
        assert await page.run(IS_SHOWN) is True
        assert await overflow(page) == 0
        assert await faint_texts(page) == []
        assert await violations(page) == []
