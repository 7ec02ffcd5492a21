"""Tests of the live page's problem "no requests": members that answers name although they report no requests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.browser import Browser, browsing
from tests.needs import needs
from tests.page.fake_farm import FakeFarm
from tests.page.fake_server import fake_server

pytestmark = [needs(programs=("chromium",)), pytest.mark.asyncio(loop_scope="module")]

HIDDEN = "document.getElementById('problems').hidden"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.mark.parametrize(
    ("metrics", "others", "is_problem"),
    [({"requests_per_s": 1.0}, {}, True), ({"requests_per_s": 2.0}, {}, False), ({}, {}, False),
     ({"requests_per_s": 0.0}, {"requests_per_s": 0.1}, False)],
    ids=["only the agent's requests", "few requests", "it reports none", "clients use cached answers everywhere"],
)  # fmt: skip
async def test_a_member_that_is_named_but_serves_nothing_is_a_problem(
    browser: Browser, metrics: dict[str, float], others: dict[str, float], is_problem: bool
) -> None:
    farm = FakeFarm({"web": [f"web-{number}" for number in range(4)]}, now=1_800_000_000.0)
    farm.started, first, *rest = farm.time - 4000, *farm.pools["web"]
    farm.replaced |= {name: {"metrics": others} for name in rest if others}
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.members tbody tr').length === 4")
        for second in range(0, 80, 5):
            assert farm.now is not None
            farm.now += 5
            farm.replaced[first] = {"answers": 20_000 + 10 * second, "metrics": metrics}
            await server.send_status()
            queries = int((farm.now - farm.started) * 41)
            await page.until(f"document.querySelector('#server div:nth-child(2) dd').innerText === '{queries:,}'")
            if second < 50:
                assert await page.run(HIDDEN) is True, "the evidence must be beyond doubt"
        assert await page.run(HIDDEN) is not is_problem
        if is_problem:
            text = await page.text(".problems .trouble")
            assert text.startswith(f"{first} no requests\n\n750 answers have named it since its last request\n"), text
        assert page.errors == []
