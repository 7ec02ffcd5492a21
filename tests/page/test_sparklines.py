"""Tests of the sparklines in the members table: what they show, where their values come from, and their colour."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio

from tests.browser import Browser, BrowserPage, browsing
from tests.needs import needs
from tests.page.fake_farm import FakeFarm, demo_farm, large_farm
from tests.page.fake_server import fake_server
from tests.page.page_checks import read_until

pytestmark = [needs(programs=("chromium",)), pytest.mark.asyncio(loop_scope="module")]

#: Script: for each sparkline on the page, the first column of pixels that the line reaches, in CSS pixels (64: none)
STARTS: Final = """[...document.querySelectorAll('.sparkline')].map(line => {
  const { data, width } = line.getContext('2d').getImageData(0, 0, line.width, line.height);
  const columns = [];
  for (let i = 3; i < data.length; i += 4) if (data[i]) columns.push((i >> 2) % width);
  return Math.min(64, ...columns);
})"""
#: Script: the colour in which the first sparkline is drawn, or null
COLOUR: Final = """(() => {
  const line = document.querySelector('.sparkline');
  if (!line) return null;
  const { data } = line.getContext('2d').getImageData(0, 0, line.width, line.height);
  const at = data.findIndex((value, i) => i % 4 === 3 && value === 255);
  return at < 0 ? null : `rgb(${[...data.slice(at - 3, at)].join(', ')})`;
})()"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


def line_requests(page: BrowserPage) -> list[dict[str, list[str]]]:
    """Return the parameters of the requests for the values of sparklines: two minutes of history."""
    parameters = [parse_qs(urlsplit(url).query) for url in page.requested if "/api/v1/plots?" in url]
    return [found for found in parameters if float(found["to"][0]) - float(found["from"][0]) == 120]


async def test_a_sparkline_moves_although_its_ends_stay_the_same(browser: Browser) -> None:
    """A peak moves to the left even while the oldest and the newest value are equal."""
    async with fake_server(demo_farm(), 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        same = await page.run("""(async () => {
          const { Sparkline } = await import('/js/sparkline.js');
          const line = new Sparkline();
          const picture = peak => {
            line.draw(Array.from({ length: 120 }, (_, i) => (i === peak ? 1 : 0)), 1);
            return line.element.toDataURL();
          };
          return picture(80) === picture(40);
        })()""")
        assert same is False


async def test_sparklines_begin_with_the_history(browser: Browser) -> None:
    async with fake_server(demo_farm(), 0.3) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/")
        await page.until(f"({STARTS}).length === 6 && ({STARTS}).every(column => column <= 2)")
        # New values follow the old ones, and the line still reaches from end to end
        await asyncio.sleep(3)
        assert max(await page.run(STARTS)) <= 3
        assert len(line_requests(page)) == 1
        assert page.errors == []


async def test_one_request_fetches_the_lines_of_all_rows(browser: Browser) -> None:
    async with fake_server(large_farm(1, 1000), 60) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/")
        await page.until(f"({STARTS}).filter(column => column <= 2).length >= 90")
        [found] = line_requests(page)
        assert found["metric"] == ["answers", "cpu_idle"]
        assert found["member"] == [f"web-{i:03}" for i in range(1, 51)]
        await page.run("document.querySelector('.pages [aria-label=\"Next page\"]').click()")
        await page.until("document.querySelector('.opener').textContent === 'web-051'")
        await page.until(f"({STARTS}).filter(column => column <= 2).length >= 90")
        _, found = line_requests(page)
        assert found["member"] == [f"web-{i:03}" for i in range(51, 101)]
        assert page.errors == []


async def test_a_request_that_failed_is_repeated(browser: Browser) -> None:
    async with fake_server(demo_farm(), 0.5) as server, browser.page(width=1400) as page:
        server.failing_sparklines = 1
        await page.open(f"{server.url}/")
        await page.until(f"({STARTS}).filter(column => column <= 8).length >= 3")
        assert server.failing_sparklines == 0
        assert len(line_requests(page)) == 2
        assert ["503" in error for error in page.errors] == [True]


async def test_lines_that_nobody_sees_are_not_fetched(browser: Browser) -> None:
    async with fake_server(demo_farm(), 0.3) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/")
        await page.run("localStorage.setItem('lbdns.hidden-columns', JSON.stringify(['rate', 'cpu']))")
        page.requested.clear()
        await page.open(f"{server.url}/?again")
        await page.until("document.querySelectorAll('.members tbody tr').length > 2")
        await asyncio.sleep(2.5)  # the page would send the request within a second
        assert line_requests(page) == []


async def test_without_history_sparklines_begin_when_the_page_was_opened(browser: Browser) -> None:
    farm: FakeFarm = demo_farm()
    farm.has_history = False
    async with fake_server(farm, 0.3) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/")
        starts = await read_until(lambda: page.run(STARTS), lambda found: len(found) == 6 and max(found) < 64)
        assert 32 < min(starts) <= max(starts) < 64
        assert line_requests(page) == []
        assert page.errors == []


async def test_sparklines_change_their_colour_with_the_system(browser: Browser) -> None:
    async with fake_server(demo_farm(), 60) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/")
        wanted = "getComputedStyle(document.querySelector('.sparkline')).color"
        await page.until(f"{COLOUR} !== null && {COLOUR} === {wanted}")
        light = await page.run(wanted)
        await page.emulate(1400, 900, dark=True)
        await page.until(f"{COLOUR} === {wanted}")
        assert await page.run(wanted) != light
        assert page.errors == []
