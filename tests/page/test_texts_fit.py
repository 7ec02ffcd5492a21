"""Tests that no text of the live page leaves its panel and no member's name is cut off, on any screen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from lbdns_tools.page_pictures.page_findings import CUT_NAMES, SPILLED_TEXTS
from tests.browser import Browser, browsing
from tests.needs import needs
from tests.page.fake_farm import FakeFarm, demo_farm
from tests.page.fake_server import fake_server
from tests.page.page_checks import read_until
from tests.page.test_problems import troubled

pytestmark = [needs(programs=("chromium",)), pytest.mark.asyncio(loop_scope="module")]

WIDTHS: Final = (320, 390, 820, 1400, 1920)
#: Script: the explanation's rows on a phone in which a value is wider than its cell
_NARROW: Final = """[...document.querySelectorAll('.why tbody td')]
  .filter(cell => cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.innerText)"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.mark.parametrize("is_troubled", [False, True], ids=["well", "troubled"])
async def test_no_text_leaves_its_panel(browser: Browser, is_troubled: bool) -> None:
    farm = (
        troubled(FakeFarm({"web": ["bilbo", "frodo", "gandalf", "sam", "pippin", "web1000"]}))
        if is_troubled
        else demo_farm()
    )
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.members tbody tr').length > 2")
        for width in WIDTHS:
            await page.emulate(width, 4000, phone=width < 820)
            await page.until("document.querySelector('.why tbody td')")
            assert await read_until(lambda: page.run(SPILLED_TEXTS), lambda found: found == []) == [], width
            assert await page.run(CUT_NAMES) == [], width
            if width < 700:
                assert await page.run(_NARROW) == [], width


async def test_numbers_of_a_block_are_aligned(browser: Browser) -> None:
    """On a phone, the numbers of a member begin at the same distance from the edge, beside their labels."""
    async with fake_server(demo_farm(), 60) as server, browser.page() as page:
        await page.emulate(390, 2000, phone=True)
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.members tbody tr').length > 2")
        starts = await page.run("""[...document.querySelectorAll('.members td:is(.col-share, .col-rate)')].map(cell => {
          const range = document.createRange();
          range.selectNodeContents(cell.querySelector('.number'));
          return range.getBoundingClientRect().left - cell.getBoundingClientRect().left;
        })""")
        assert len(starts) == 6
        assert max(starts) - min(starts) < 1
