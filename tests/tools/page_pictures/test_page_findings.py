"""Tests of the search for faults of the live page, in a real browser."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from lbdns_tools.bench.headless_browser import browsing
from lbdns_tools.page_pictures.page_findings import find_faults, read_axe
from tests.needs import needs

WELL = "<!doctype html><html lang=en><title>page</title><main><h1>Members</h1></main>"
WIDE = "<div style='width: 500px'>wide</div>"
SPILLED = "<div class=panel style='width: 40px'><p>averylongwordwithoutanyspace</p></div>"
CUT = "<div class=members><button class=opener style='width: 40px; overflow: hidden'>web1000</button></div>"
PICTURE = "<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>"


@needs(programs=("chromium",))
@pytest.mark.asyncio
async def test_each_fault_is_found(tmp_path: Path) -> None:
    cases = [
        (WELL, []),
        (WELL + WIDE, ["the page is "]),
        (WELL + SPILLED, ["a text leaves its panel: averylongword"]),
        (WELL + CUT, ["the name of a member is cut off: web1000"]),
        (WELL + PICTURE, ["axe-core: image-alt, 1 elements, the first is <img"]),
        (WELL + "<script>throw new Error('broken')</script>", ["error: Error: broken"]),
    ]
    axe = read_axe(None)
    async with browsing(tmp_path, None, 400, 600) as page:
        for source, expected in cases:
            await page.call("Page.navigate", url=f"data:text/html,{quote(source)}")
            await page.until("document.readyState === 'complete' && document.querySelector('h1')", 60)
            faults = [fault for fault in await find_faults(page, axe) if "region" not in fault]
            assert [fault[: len(start)] for fault, start in zip(faults, expected, strict=True)] == expected, source
