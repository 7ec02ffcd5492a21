"""Tests of the panel "Servers and demand" on a real server, whose scaler a reload removes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lbdns.client.control_client import send_command
from tests.browser import browsing
from tests.collector.web.fake_scaler import fake_scaler
from tests.end_to_end.harness import new_site, serving
from tests.needs import needs


@needs(programs=("chromium",))
async def test_the_page_shows_the_scaler_that_the_configuration_names(tmp_path: Path) -> None:
    for name in ("browser", "state"):
        (tmp_path / name).mkdir()
    site = new_site(tmp_path, {"bilbo": ["127.0.0.16"]})
    async with fake_scaler() as scaler:
        site.write(web=f'scaler = "{scaler.url}"')
        with serving(site):
            async with browsing(tmp_path / "browser") as browser, browser.page(width=820, height=3000) as page:
                await page.open(f"http://127.0.0.1:{site.http_port}/")
                await page.until("document.querySelectorAll('.servers tbody tr').length === 6")
                assert (await page.text("#scaler .headline")).startswith(
                    "4 servers in service, 6 wanted: 52 requests/s"
                )
                await page.until("document.querySelectorAll('#scaler .plot canvas').length === 2")
                assert page.errors == []
                site.write(web="")
                await asyncio.to_thread(send_command, site.folder / "control.sock", "reload")
                await page.until("document.getElementById('scaler').hidden")
                reads = len(scaler.requests)
                await page.until(
                    "performance.getEntriesByType('resource').filter(e => e.name.includes('/explain')).length > 2"
                )
                assert len(scaler.requests) == reads
