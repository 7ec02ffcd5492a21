"""Tests of the live page's panel "Servers and demand" in a real browser, with a fake server and a fake scaler."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.browser import Browser, BrowserPage, browsing
from tests.collector.web.fake_scaler import STATES
from tests.needs import needs
from tests.page.fake_farm import demo_farm, large_farm
from tests.page.fake_server import fake_server
from tests.page.page_checks import faint_texts, overflow, read_until
from tests.page.scaler_pages import ScalerPages, many_servers, scaler_pages, servers_of_all_stages, with_servers
from tests.page.test_accessibility import violations

pytestmark = [needs(programs=("chromium",)), pytest.mark.asyncio(loop_scope="module")]

WIDTHS: Final = (320, 390, 820, 1100, 1400, 1920)  # CSS pixels
HIDDEN: Final = "document.getElementById('scaler').hidden"
HEADLINE: Final = "(document.querySelector('#scaler .headline')?.textContent ?? '')"
SERVERS: Final = "document.querySelectorAll('.servers tbody tr').length"
SCROLL: Final = "document.getElementById('{}').scrollIntoView({{ behavior: 'instant' }})"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


@contextlib.asynccontextmanager
async def shown_panel(
    browser: Browser, *, width: int = 1400, dark: bool = False, **changes: Any
) -> AsyncIterator[tuple[ScalerPages, BrowserPage]]:
    """Open the page, and wait until the panel shows a scaler's status with these ``changes``."""
    async with scaler_pages(**changes) as server, browser.page(width=width, dark=dark) as page:
        await page.emulate(width, 900, dark=dark, phone=width < 820)
        await page.open(f"{server.url}/")
        await page.until(f"{HIDDEN} === false")
        await page.run(SCROLL.format("scaler"))
        await page.until(f"{HEADLINE} !== ''")
        yield server, page
        assert [error for error in page.errors if "Failed to load resource" not in error] == []
        assert [url for url in page.requested if not url.startswith(server.url)] == []


async def rows(page: BrowserPage) -> list[str]:
    return [" ".join(text.split()) for text in await page.texts(".servers tbody tr")]


async def test_without_a_scaler_nothing_is_shown_or_requested(browser: Browser) -> None:
    async with fake_server(demo_farm(), 60) as server, browser.page(height=4000) as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.plot canvas').length === 6")
        assert await page.run(HIDDEN) is True
        assert await page.run("document.getElementById('scaler-link').checkVisibility()") is False
        assert not any("/api/v1/scaler" in url for url in page.requested)


async def test_the_panel_says_what_the_scaler_does_and_why(browser: Browser) -> None:
    async with shown_panel(browser) as (server, page):
        assert await page.text("#scaler .headline") == (
            "4 servers in service, 6 wanted: 52 requests/s at 10 requests/s per server need 6 servers"
        )
        figures = " ".join((await page.text("#scaler .figures")).split())
        for figure in ("requests/s 52", "requests/s per server 10", "1 to 8, quota 10", "policy queue"):
            assert figure in figures
        assert await page.texts(".stages li") == ["1 wanted", "1 starting", "4 in service"]
        await page.until("document.querySelectorAll('#scaler .plot canvas').length === 2")
        values = [" ".join(text.split()) for text in await page.texts("#scaler .values tbody tr")]
        assert values == ["demand 52", "capacity in service 40", "in service 4", "recommended 5"]
        assert "last 30 min" in await page.run("document.querySelector('#scaler .chart').getAttribute('aria-label')")
        found = await rows(page)
        assert re.fullmatch(
            r"web-6 wanted [\d:a-zA-Z ]+, for 42 s \u2013 \u2013 \u2013 52 requests/s need 6 servers", found[0]
        )
        assert re.fullmatch(r"web-1 in service [\d:a-zA-Z ]+, for 42 s 8.7 61 % 3 all checks passed", found[2])
        assert [row.split()[0] for row in found] == ["web-6", "web-5", "web-1", "web-2", "web-3", "web-4"]
        # The next status takes the place of the first, in the same elements
        await page.run("window.before = [...document.querySelectorAll('#scaler tbody tr, #scaler canvas')]; 1")
        assert server.scaler
        server.scaler |= {"wanted": 5, "recommended": 9, "reason": "the maximum is 5"}
        await page.until(f"{HEADLINE} === '4 servers in service, 5 wanted (9 recommended): the maximum is 5'")
        same = "[...document.querySelectorAll('#scaler tbody tr, #scaler canvas')].every((n, i) => n === before[i])"
        assert await page.run(same) is True
        assert await page.run("document.querySelector('#scaler .problems').hidden") is True


async def test_a_scaler_that_has_not_decided_yet(browser: Browser) -> None:
    empty = with_servers([], demand=None, wanted=None, recommended=None, reason="", rounds=[])
    async with shown_panel(browser, **empty) as (_, page):
        assert await page.text("#scaler .headline") == "0 servers in service; the scaler has not decided yet"
        assert await page.run("document.querySelector('.servers').checkVisibility()") is False
        assert await page.texts(".stages li") == ["0 in service"]


async def test_failures_and_trouble_are_listed_as_problems(browser: Browser) -> None:
    changes = with_servers(servers_of_all_stages(), trouble="the collector does not respond",
                           failures={"starting": 2, "benchmarking": 1}, dry_run=True)  # fmt: skip
    async with shown_panel(browser, **changes) as (server, page):
        problems = [" ".join(text.split()) for text in await page.texts("#scaler .problems li")]
        assert [re.split(r" since |(?<=held) |(?<=trouble) ", text)[0] for text in problems] == [
            "web trouble", "web-11 failed", "web-12 held", "web failures",
        ]  # fmt: skip
        assert "the collector does not respond" in problems[0]
        assert "because of failed" in problems[1]
        assert problems[3].endswith("2 \u00d7 starting, 1 \u00d7 benchmarking")
        assert len(await page.texts("#scaler .problems .trouble")) == 2
        assert [row.split()[0] for row in await rows(page)] == [
            f"web-{number}" for number in (1, 2, 3, 4, 5, 12, 6, 7, 8, 9, 10, 11)
        ]
        assert await page.texts(".stages li") == [f"{2 if state == 'in service' else 1} {state}" for state in STATES]
        assert "in service, held" in (await rows(page))[5]
        assert "dry run changes nothing" in " ".join((await page.text("#scaler .figures")).split())
        # A scaler that does not respond; its last status stays
        server.error = "[web] scaler: http://127.0.0.1:8054: no response within 1 s"
        await page.until("document.querySelectorAll('#scaler .problems li').length === 5")
        first = (await page.texts("#scaler .problems li"))[0]
        assert first.startswith("scaler no status since")
        assert server.error in first
        assert "those of the last status" in first
        assert await page.run(SERVERS) == 12
        server.error = ""
        assert server.scaler
        server.scaler |= with_servers([], trouble="", failures={})
        await page.until("document.querySelectorAll('#scaler .problems li').length === 0")


async def test_a_scaler_that_never_responded(browser: Browser) -> None:
    async with scaler_pages() as server, browser.page(height=4000) as page:
        server.error = "[web] scaler: http://127.0.0.1:8054: no response: Connection refused"
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('#scaler .problems li').length === 1")
        assert server.error in await page.text("#scaler .problems")
        assert await page.run("document.querySelector('#scaler .charts').checkVisibility()") is False
        server.error = ""
        await page.until(f"{HEADLINE} !== ''")


async def test_the_status_is_read_only_while_the_panel_is_visible(browser: Browser) -> None:
    explained = "performance.getEntriesByType('resource').filter(({ name }) => name.includes('/explain')).length"
    async with scaler_pages(large_farm(1, 30)) as server, browser.page(height=500) as page:
        await page.open(f"{server.url}/")
        await page.until(f"{HIDDEN} === false")
        assert server.reads == 0  # the panel is below the visible part
        await page.run(SCROLL.format("scaler"))
        await page.until(f"{HEADLINE} !== ''")
        await page.run(SCROLL.format("explain"))
        await page.until(f"{explained} >= 1")
        before, reads = await page.run(explained), server.reads
        await page.until(f"{explained} >= {before + 2}")  # the view of explanations is read every two seconds, too
        assert server.reads == reads
        # A reload of the server without a scaler
        await page.run(SCROLL.format("scaler"))
        await page.until("document.querySelectorAll('#scaler .plot canvas').length === 2")
        server.scaler = None
        await server.send_status()
        await page.until(HIDDEN)
        assert await page.run("document.getElementById('scaler-link').checkVisibility()") is False


async def test_a_pool_alone_has_no_panel(browser: Browser) -> None:
    async with scaler_pages() as server, browser.page(height=4000) as page:
        await page.open(f"{server.url}/#pool=web")
        await page.until("document.querySelectorAll('.members tbody tr').length === 3")
        await page.until(f"{HIDDEN} === false")
        assert await page.run("document.getElementById('scaler').checkVisibility()") is False
        assert server.reads == 0


async def test_many_servers_are_shortened_and_a_key_shows_all(browser: Browser) -> None:
    async with shown_panel(browser, **with_servers(many_servers(60))) as (_, page):
        assert await page.run(SERVERS) == 12
        assert (await rows(page))[0].startswith("web-60 joining")
        button = "document.querySelector('#scaler .servers + button')"
        assert await page.run(f"{button}.textContent") == "Show 48 more servers"
        await page.run(f"{button}.focus()")
        await page.press("Enter")
        await page.until(f"{SERVERS} === 60")
        assert await page.run(f"{button}.getAttribute('aria-expanded')") == "true"
        await page.press("Enter")
        await page.until(f"{SERVERS} === 12")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_the_panel_fits_every_screen(browser: Browser, dark: bool) -> None:
    changes = with_servers(servers_of_all_stages(), trouble="a-trouble-without-any-space" * 9,
                           reason="a-reason-without-any-space" * 9, failures={"starting": 2})  # fmt: skip
    async with shown_panel(browser, dark=dark, **changes) as (_, page):
        for width in WIDTHS:
            await page.emulate(width, 900, dark=dark, phone=width < 820)
            assert await faint_texts(page) == []
            assert await read_until(lambda: overflow(page), lambda pixels: pixels <= 0) <= 0, width


@pytest.mark.parametrize(("width", "dark"), [(320, True), (820, False), (1400, True)])
@pytest.mark.parametrize("is_down", [False, True], ids=["up", "down"])
async def test_axe_finds_nothing(browser: Browser, width: int, dark: bool, is_down: bool) -> None:
    changes = with_servers([*servers_of_all_stages(), *many_servers(30)], trouble="no demand", failures={"starting": 2})
    async with shown_panel(browser, width=width, dark=dark, **changes) as (server, page):
        if is_down:
            server.error = "no response"
            await page.until("document.querySelector('#scaler .problems').textContent.includes('no response')")
        await page.until("document.querySelectorAll('#scaler .plot canvas').length === 2")
        assert await violations(page) == []
