"""Checks the live page with axe-core, in light and dark mode, on wide and narrow screens, and in every state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.browser import Browser, BrowserPage, browsing
from tests.needs import needs
from tests.page.fake_farm import FakeFarm, demo_farm, large_farm
from tests.page.fake_server import fake_server
from tests.page.test_members import filled
from tests.page.test_problems import troubled

pytestmark = [needs(programs=("chromium",)), pytest.mark.asyncio(loop_scope="module")]

VENDOR: Final = Path(__file__).parent / "vendor"
AXE: Final = (VENDOR / "axe.min.js").read_text(encoding="utf-8")
#: Script: what axe-core finds, as JSON
FIND: Final = """axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => JSON.stringify(
  violations.map(({ id, nodes }) => [id, nodes.map(node => node.html.slice(0, 200))])))"""
OPEN_ALL: Final = """(() => {
  document.querySelector('.members .opener').click();
  document.querySelector('.chooser').open = true;
  return true;
})()"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


async def violations(page: BrowserPage) -> list[Any]:
    await page.run(f"(() => {{ {AXE} }})(); true")
    found: list[Any] = json.loads(await page.run(FIND))
    return found


def in_trouble() -> FakeFarm:
    farm = troubled(large_farm(1, 30))
    for i in range(1, 7):  # six problems that have ended
        for ago, level, text in (
            (900, "warning", "silent (was usable): no report"),
            (800, "info", "usable (was silent)"),
        ):
            name = f"web-{i:03}"
            farm.events.append({
                "id": len(farm.events), "time": farm.time - ago, "kind": "state", "level": level,
                "text": f"pool web: {name} is {text}", "pool": "web", "member": name,
            })  # fmt: skip
    farm.rejected.append({
        "source": "192.0.2.9", "host": "gandlaf", "key_id": "", "member_address": True, "reason": "unknown_host",
        "advice": "no member has this name", "count": 9, "counts": {"unknown_host": 9}, "age_s": 0.4,
    })  # fmt: skip
    return farm


def dead() -> FakeFarm:
    farm = demo_farm()
    farm.silent.update(farm.pools["web"])
    return farm


async def test_the_copy_of_axe_is_unchanged() -> None:
    known = (VENDOR / "README.txt").read_text(encoding="utf-8").split()[-2]
    assert hashlib.sha256((VENDOR / "axe.min.js").read_bytes()).hexdigest() == known


@pytest.mark.parametrize(("width", "dark"), [(390, False), (820, True), (1400, False), (1920, True)])
@pytest.mark.parametrize(
    ("make_farm", "fragment"),
    [
        (demo_farm, ""),
        (demo_farm, "#pool=web"),
        (dead, ""),
        (lambda: large_farm(3, 5), ""),
        (in_trouble, ""),
        (lambda: filled(large_farm(1, 45)), ""),
    ],
    ids=["at rest", "alone", "dead", "pools", "trouble", "full"],
)
async def test_axe_finds_nothing(
    browser: Browser, make_farm: Callable[[], FakeFarm], fragment: str, width: int, dark: bool
) -> None:
    async with fake_server(make_farm(), 60) as server, browser.page(width=width, dark=dark) as page:
        await page.emulate(width, 900, dark=dark, phone=width < 820)
        await page.open(f"{server.url}/{fragment}")
        await page.until("document.querySelectorAll('.members tbody tr').length > 2")
        if server.farm.events:
            await page.until("document.querySelectorAll('.problems .ended').length > 0")
        assert await violations(page) == []
        await page.run(OPEN_ALL)
        assert await violations(page) == []
        await page.press("?")
        await page.until("document.getElementById('keyboard-help').open")
        assert await violations(page) == []
