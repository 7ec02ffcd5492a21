"""Tests of the keys that work on the live page, and of the dialog that lists them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from tests.browser import Browser, BrowserPage, browsing
from tests.needs import needs
from tests.page.fake_farm import FakeFarm, demo_farm, large_farm
from tests.page.fake_server import fake_server
from tests.page.page_checks import faint_texts, overflow
from tests.page.test_problems import troubled

pytestmark = [needs(programs=("chromium",)), pytest.mark.asyncio(loop_scope="module")]

READY: Final = "document.querySelectorAll('.members tbody tr').length > 2"
FOCUSED: Final = "document.activeElement.textContent"
MEMBERS: Final = "document.querySelectorAll('.members tbody tr:not(.details)').length"
DETAILS: Final = "document.querySelectorAll('.members .details').length"
HELP_IS_OPEN: Final = "document.getElementById('keyboard-help').open"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


async def leave_focus(page: BrowserPage) -> None:
    await page.run("document.activeElement.blur()")
    assert await page.run("document.activeElement === document.body") is True


async def test_keys_move_between_members(browser: Browser) -> None:
    async with fake_server(large_farm(1, 30), 60) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        await page.press("/")
        await page.write("web-01")
        await page.until(f"{MEMBERS} === 10")
        await page.press("ArrowDown")
        assert await page.run(FOCUSED) == "web-010"
        await page.press("/")
        await page.press("Escape")
        await page.until(f"{MEMBERS} === 30")
        await page.run("document.querySelector('.opener').focus()")
        await page.press("ArrowDown")
        assert await page.run(FOCUSED) == "web-002"
        await page.press("ArrowUp")
        await page.press("ArrowUp")
        assert await page.run(FOCUSED) == "web-001"
        await page.press("Enter")
        await page.until(f"{DETAILS} === 1")
        await page.press("Escape")
        await page.until(f"{DETAILS} === 0")
        assert await page.run(FOCUSED) == "web-001"
        assert page.errors == []


async def test_escape_on_the_page_clears_the_filter_then_closes_members_then_ends_the_zoom(browser: Browser) -> None:
    async with fake_server(large_farm(1, 30), 60) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/#from=1000&to=2000")
        await page.until(READY)
        assert "from=" in await page.run("location.hash")
        await page.press("/")
        await page.write("web-01")
        await page.until(f"{MEMBERS} === 10")
        await page.run("[...document.querySelectorAll('.opener')].slice(0, 2).forEach(opener => opener.click())")
        await page.run("document.querySelector('.chooser').open = true")
        await leave_focus(page)
        await page.press("Escape")
        assert await page.run(f"[document.querySelector('.chooser').open, {MEMBERS}, {DETAILS}]") == [False, 10, 2]
        await page.press("Escape")
        await page.until(f"{MEMBERS} === 30 && {DETAILS} === 2")
        await page.press("Escape")
        await page.until(f"{MEMBERS} === 30 && {DETAILS} === 0")
        assert "from=" in await page.run("location.hash")
        await page.press("Escape")
        assert "from=" not in await page.run("location.hash")
        await page.press("Escape")  # nothing is left to close
        assert page.errors == []


async def test_escape_in_the_plots_ends_only_the_zoom(browser: Browser) -> None:
    async with fake_server(large_farm(1, 30), 60) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/#from=1000&to=2000")
        await page.until(READY)
        await page.press("/")
        await page.write("web-01")
        await page.until(f"{MEMBERS} === 10")
        await page.run("document.querySelector('#plots button').focus()")
        await page.press("Escape")
        assert "from=" not in await page.run("location.hash")
        assert await page.run(MEMBERS) == 10


async def test_a_dialog_lists_the_keys(browser: Browser) -> None:
    async with fake_server(large_farm(1, 30), 60) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        assert await page.text("#keys") == "Keys ?"
        await page.run("document.querySelector('.opener').focus()")
        await page.press("?")
        assert await page.run(HELP_IS_OPEN) is True
        shown = await page.text("#keyboard-help")
        for key in ("?", "/", "↑", "↓", "Enter", "Esc"):
            assert key in shown
        await page.press("/")  # a dialog keeps the keys from the page below it
        assert await page.run("document.activeElement.closest('dialog') !== null") is True
        await page.press("Escape")
        assert await page.run(HELP_IS_OPEN) is False
        assert await page.run(FOCUSED) == "web-001"
        await page.click("#keys")
        assert await page.run(HELP_IS_OPEN) is True
        await page.click("#keyboard-help button")
        assert await page.run(HELP_IS_OPEN) is False
        await page.press("/")
        await page.press("?")  # here it is text
        assert await page.run("document.activeElement.value") == "?"
        assert await page.run(HELP_IS_OPEN) is False
        assert page.errors == []


@pytest.mark.parametrize("width", [320, 390, 820, 1400])
async def test_the_list_of_keys_fits_every_screen(browser: Browser, width: int) -> None:
    async with fake_server(demo_farm(), 60) as server, browser.page() as page:
        for dark in (False, True):
            await page.emulate(width, 800, dark=dark)
            await page.open(f"{server.url}/?{dark}")
            await page.until(READY)
            await page.press("?")
            assert await page.run(HELP_IS_OPEN) is True
            assert await overflow(page) == 0
            assert await faint_texts(page) == []
            inside = "(box => box.left >= 0 && box.right <= innerWidth && box.bottom <= innerHeight)"
            assert await page.run(f"{inside}(document.querySelector('dialog').getBoundingClientRect())") is True


async def test_the_keyboard_opens_the_whole_text_of_an_event(browser: Browser) -> None:
    farm = demo_farm()
    for i, text in enumerate(("lbdns started", "gandalf is silent: " + "no report " * 60)):
        farm.events.append(
            {"id": i, "time": farm.time - 9 + i, "kind": "state", "level": "info", "text": text, "pool": "web",
             "member": ""}
        )  # fmt: skip
    async with fake_server(farm, 60) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.events li').length === 2")
        is_cut = "(text => text.scrollWidth > text.clientWidth)(document.querySelector('.events p'))"
        assert await page.run(is_cut) is True
        await page.run("document.querySelector('.events').focus()")
        await page.press("ArrowDown")
        assert "gandalf is silent" in await page.run(FOCUSED)
        assert await page.run(is_cut) is False
        await server.send_event(kind="server", level="info", text="something else has happened")
        await page.until("document.querySelectorAll('.events li').length === 3")
        assert "gandalf is silent" in await page.run(FOCUSED), "the focus stays although there is a newer event"
        await page.press("ArrowUp")
        assert "something else" in await page.run(FOCUSED)
        await page.press("Escape")
        assert await page.run("document.activeElement.matches('.events')") is True
        assert page.errors == []


async def test_details_tell_the_whole_reason(browser: Browser) -> None:
    farm = troubled(FakeFarm({"web": ["bilbo", "frodo", "gandalf", "sam", "pippin"]}))
    reason = "the disk of the database is full, so that " * 8
    farm.replaced["frodo"] = {"state": "alarm", "alarm": reason.strip(), "reason": f"alarm: {reason.strip()}"}
    farm.replaced["pippin"] = {"guard": "quarantined: it serves no requests", "reason": ""}
    async with fake_server(farm, 60) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        await page.run("document.querySelectorAll('.opener').forEach(opener => opener.click())")
        await page.until(f"{DETAILS} === 5")
        assert await page.texts(".details .why-state") == [
            "drained: by root: new kernel", f"alarm: {reason.strip()}", "forced down: by root",
            "quarantined: it serves no requests", "silent",
        ]  # fmt: skip
        cut = "[...document.querySelectorAll('.why-state')].some(text => text.scrollWidth > text.clientWidth)"
        assert await page.run(cut) is False
        said = (await page.texts(".details .about"))[1]
        assert "database" not in said, "the reason is said once"
