"""Measures the cost of a page update in the browser, with 5 pools of 200 members."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import browsing
from tests.needs import needs
from tests.page.fake_farm import large_farm
from tests.page.fake_server import fake_server

UPDATES = 4


@needs(programs=("chromium",))
async def test_an_update_reuses_the_existing_elements(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with browsing(tmp_path) as browser, fake_server(large_farm(5, 200), 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.members tbody tr').length === 50")
        # Plots and explanation are built when they first become visible
        await page.until_shown("#explain", "document.querySelector('.next b')")
        await page.until_shown("#plots", "document.querySelectorAll('.plot canvas').length === 6")
        await page.run("scrollTo(0, 0)")
        nodes = await page.run("document.querySelectorAll('*').length")
        before = await page.performance_metrics()
        for _ in range(UPDATES):
            shown = await page.text("#server div:nth-child(2) dd")  # the number of queries
            await server.send_status()
            await page.until(f"document.querySelector('#server div:nth-child(2) dd').innerText !== {shown!r}")
        after = await page.performance_metrics()
        parts = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
        spent = {part: round(1000 * (after[part] - before[part]) / UPDATES, 1) for part in parts}
        with capsys.disabled():
            print(f"\n5 x 200 members, ms of CPU time per update: {spent}")
        assert await page.run("document.querySelectorAll('*').length") == pytest.approx(nodes, rel=0.02)
        assert page.errors == []
