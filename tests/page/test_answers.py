"""Tests of the answer cards at the top of the live page, and of a page that shows one pool alone."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from tests.browser import Browser, BrowserPage, browsing
from tests.needs import needs
from tests.page.fake_farm import FakeFarm, demo_farm, large_farm
from tests.page.fake_server import FakeServer, fake_server
from tests.page.page_checks import faint_texts, overflow, read_until
from tests.page.test_problems import troubled

pytestmark = [needs(programs=("chromium",)), pytest.mark.asyncio(loop_scope="module")]

NOW: Final = 1_800_000_000.0  # Unix seconds
ANSWERS: Final = (
    "[...document.querySelectorAll('.next-answers li')].map(row => ['.asked', '.answered', '.why-next', '.following']"
    ".map(part => row.querySelector(part).textContent))"
)
STRIP: Final = "document.querySelector('.shares.answers').getAttribute('aria-label')"
CAPACITY: Final = "document.querySelector('.shares.capacity').getAttribute('aria-label')"
READY: Final = "document.querySelectorAll('.members tbody tr').length > 2"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


async def pass_time(server: FakeServer, page: BrowserPage, seconds: float) -> None:
    """Advance the farm's clock, send the new status, and wait until the page shows it."""
    assert server.farm.now is not None
    server.farm.now += seconds
    queries = int((server.farm.now - server.farm.started) * 41)
    await server.send_status()
    await page.until(f"document.querySelector('#server div:nth-child(2) dd').innerText === '{queries:,}'")


async def test_each_name_shows_the_next_answers_and_why(browser: Browser) -> None:
    """The screen is too low for the explanation, whose answer would otherwise replace that of the status."""
    farm = demo_farm()
    farm.now, farm.started = NOW, NOW - 4000
    async with fake_server(farm, 60) as server, browser.page(height=400) as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        for _ in range(3):
            told = farm.next_answers("web")
            names = [("best.hobbit", "best"), ("round.robin.hobbit", "round_robin"), ("weighted.hobbit", "weighted")]
            expected = [
                [
                    name,
                    told[policy]["members"][0],
                    f"{told[policy]['summary'][0].upper()}{told[policy]['summary'][1:]}.",
                    "then " + ", ".join(told[policy]["members"][1:]),
                ]
                for name, policy in names
            ]
            assert await page.run(ANSWERS) == expected
            assert await page.run("document.title") == f"best → {told['best']['members'][0]}"
            await pass_time(server, page, 31)
        await page.run("document.querySelector('.next-answers li:nth-child(3) .asked').click()")
        await page.until("document.querySelector('#explain .next')?.textContent.includes('weighted.hobbit')")
        assert page.errors == []


async def test_the_top_and_the_explanation_name_the_same_member(browser: Browser) -> None:
    """They come from different moments. While the explanation is on the screen, its answer also stands at the top."""
    farm = demo_farm()
    farm.replaced |= {name: {"share": 0.1} for name in farm.pools["web"]}
    slowest = max(farm.pools["web"], key=lambda name: farm.load(name, farm.time))
    farm.replaced[slowest] = {"share": 0.8}  # the explanation's answer; the status names the fastest member
    top = "document.querySelector('.next-answers .answered').textContent"
    panel = "document.querySelector('#explain .next')"
    async with fake_server(farm, 0.3) as server, browser.page(height=400) as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        assert await page.run(top) != slowest
        await page.until_shown("#explain", f"{top} === {slowest!r}")
        summary = f"{slowest.capitalize()} has the most spare capacity."
        assert await page.text(".why-next") == summary
        assert await page.run(f"{panel}.innerText") == f"The next answer for best.hobbit names {slowest}. {summary}"
        assert await page.run("document.title") == f"best \u2192 {slowest}"
        # An explanation that is no longer refreshed states its time
        await page.run("document.querySelector('#explain .check input').click()")
        await page.until(f"{top} !== {slowest!r} && {panel}.innerText.startsWith('At ')")
        assert re.fullmatch(
            rf"At \d\d:\d\d:\d\d, the next answer for best\.hobbit was to name {slowest}\. {summary} The top of the "
            r"page is newer\.",
            await page.run(f"{panel}.innerText"),
        )
        assert page.errors == []


async def test_an_answer_that_names_several_members_shows_them_all(browser: Browser) -> None:
    farm = demo_farm()
    farm.now, farm.started, farm.answer_length = NOW, NOW - 4000, 3
    names = """[...document.querySelectorAll('.next-answers li')].map(row => ['.alternatives', '.following']
      .map(part => row.querySelector(part).innerText))"""
    async with fake_server(farm, 60) as server, browser.page(height=400) as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        expected = [
            [
                f"then {', '.join(told['alternatives'])} in the same answer",
                f"next answers begin with {', '.join(told['members'][1:])}",
            ]
            for told in map(farm.next_answers("web").get, ("best", "round_robin", "weighted"))
            if told
        ]
        assert await page.run(names) == expected
        await page.until_shown("#explain", "document.querySelector('#explain .next')?.innerText")
        explanation = farm.explain("best.hobbit")
        assert explanation is not None
        assert len(explanation["alternatives"]) == 2
        assert f", then {', '.join(explanation['alternatives'])}." in await page.text("#explain .next")
        farm.answer_length = 1
        await pass_time(server, page, 2)
        await page.until("!document.querySelector('.alternatives').checkVisibility()")  # with the next explanation
        assert page.errors == []


async def test_a_server_of_the_first_versions_tells_no_next_answers(browser: Browser) -> None:
    farm = demo_farm()
    farm.is_current = False
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        assert await page.run(f"{ANSWERS}[0]") == ["best.hobbit", "\u2013", "", ""]
        assert await page.run("document.title") == "lbdns"


async def test_the_strip_shows_the_last_minute_and_the_capacity(browser: Browser) -> None:
    farm = demo_farm()
    farm.now, farm.started, farm.has_history = NOW, NOW - 4000, False
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        assert await page.run(STRIP) == "Answers in the last minute: none"
        for _ in range(40):
            await pass_time(server, page, 2)
        total = sum(map(farm.cores, farm.pools["web"]))
        expected = ", ".join(f"{name} {100 * farm.cores(name) / total:.1f} %" for name in farm.pools["web"])
        assert await page.run(CAPACITY) == f"Capacity: {expected}"
        shares = dict(re.findall(r"(\w+) ([\d.]+) %", await page.run(STRIP)))
        assert float(shares["bilbo"]) == pytest.approx(100 * farm.cores("bilbo") / total, abs=1.5)
        farm.replaced["frodo"] = {"answers": farm.answers("frodo"), "state": "drained"}
        await pass_time(server, page, 2)
        assert re.fullmatch(
            r"[\d,]+ answers in the last minute; [\d.]+ % named frodo, which is drained "
            r"\(the shares stated above are those of the next answers\)",
            await page.text(".minute p"),
        )
        usable = total - farm.cores("frodo")
        shares = {name: farm.cores(name) / usable for name in farm.pools["web"] if name != "frodo"}
        expected = ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items())
        assert await page.run(CAPACITY) == f"Capacity: {expected}", "of the usable members, as in the reasons above"
        assert await page.text(".capacity-note") == "Shares of the usable capacity, as measured"
        for _ in range(31):
            await pass_time(server, page, 2)
        assert "frodo" not in await page.run(STRIP), "no answer of the last minute named it"
        assert page.errors == []


async def test_a_pool_that_fails_open_states_no_shares(browser: Browser) -> None:
    """Its members take turns, their scores are old, and a short plan is repeated often."""
    farm = demo_farm()
    farm.now, farm.started, farm.fails_open = NOW, NOW - 4000, True
    farm.silent.update(farm.pools["web"])
    async with fake_server(farm, 60) as server, browser.page(height=3000) as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        await pass_time(server, page, 2)
        assert re.fullmatch(r"[\d,]+ answers in the last minute", await page.text(".minute p"))
        assert "0 to 0" not in await page.text(".members thead")
        await page.until("document.querySelector('#explain .figures')?.innerText.includes('all 64 used, now repeated')")
        assert page.errors == []


async def test_the_last_minute_begins_before_the_page_was_opened(browser: Browser) -> None:
    farm = demo_farm()
    async with fake_server(farm, 0.3) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        rate = sum(farm.rate(name, farm.time) for name in farm.pools["web"])

        async def answers() -> int:
            text = await page.text(".minute p")
            return int(text.split()[0].replace(",", "")) if "," in text or text[0].isdigit() else 0

        found = await read_until(answers, lambda count: count > 40 * rate)
        assert 40 * rate < found < 80 * rate


async def test_large_pools_show_the_members_of_the_plots_and_the_others_together(browser: Browser) -> None:
    farm = large_farm(1, 200)
    async with fake_server(farm, 1) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        await page.until(f"{STRIP}.includes('190 others')")
        assert await page.run("document.querySelectorAll('.shares.answers > span').length") == 11
        named_out = r"[\d,]+ answers in the last minute; [\d.]+ % named 3 members that answers no longer name "
        assert re.match(named_out, await page.text(".minute p")), "their names would fill the line"


async def test_a_pool_alone(browser: Browser) -> None:
    farm = large_farm(3, 5)
    farm.silent.add("shop1-002")
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/#pool=shop1")
        await page.until(READY)
        assert [row[0] for row in await page.run(ANSWERS)] == [
            f"{name}.shop1.example" for name in ("best", "round.robin", "weighted")
        ]
        assert await page.run("document.querySelectorAll('.pool').length") == 1
        assert [head.split(" since ")[0] for head in await page.texts(".problem-head")] == ["shop1-002 silent"]
        for part in ("#plots", "#explain", "#log", "#pool-tabs", "footer"):
            assert await page.run(f"document.querySelector('{part}').checkVisibility()") is False
        await page.run("location.hash = '#pool=nowhere'; 1")  # as typed into the address bar
        await page.until("document.getElementById('no-pool')?.textContent.includes('no pool nowhere')")
        await page.run("location.hash = '#'; 1")
        await page.until("document.querySelectorAll('.pool').length === 3")
        assert await page.run("document.querySelector('#plots').checkVisibility()") is True
        assert page.errors == []


@pytest.mark.parametrize("width", [320, 390, 414, 820, 1400, 1920])
async def test_the_cards_fit_every_screen(browser: Browser, width: int) -> None:
    for farm, fragment in ((troubled(large_farm(1, 30)), ""), (FakeFarm({"web": ["a" * 40, "b", "c"]}), "#pool=web")):
        async with fake_server(farm, 60) as server, browser.page() as page:
            for dark in (False, True):
                await page.emulate(width, 800, dark=dark, phone=width < 820)
                await page.open(f"{server.url}/?{dark}{fragment}")
                await page.until(READY)
                assert await overflow(page) == 0
                assert await faint_texts(page) == []


async def test_a_share_is_shown_only_with_its_member(browser: Browser) -> None:
    """A segment too narrow for the member's name shows no share either, which nobody could attribute."""
    farm = FakeFarm({"web": ["bilbo", "a-member-with-a-very-long-name"]})
    async with fake_server(farm, 0.3) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.shares.answers > span:not([hidden])').length === 2")
        visible = """[...document.querySelectorAll('.shares.answers .texts')].map(box =>
            [...box.querySelectorAll('b, b + span')].map(text =>
                text.getBoundingClientRect().bottom <= box.getBoundingClientRect().bottom + 1))"""
        assert await page.run(visible) == [[True, True], [True, True]]
        await page.emulate(320, 800)
        assert await page.run(visible) == [[True, True], [False, False]]


async def test_names_stand_on_one_line(browser: Browser) -> None:
    """Beside the large name of policy best, the others share its baseline; on smaller screens they are below it."""
    async with fake_server(demo_farm(), 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        for width, lines in ((820, [1, 2]), (1400, [3]), (1920, [3])):
            await page.emulate(width, 900)
            bottoms = await page.run("""[...document.querySelectorAll('.next-answers .leads')].map(line => {
              const mark = line.appendChild(document.createElement('span'));
              mark.style.cssText = 'display: inline-block; width: 1px; height: 1px';
              const { bottom } = mark.getBoundingClientRect();
              mark.remove();
              return Math.round(bottom);
            })""")
            assert [bottoms.count(bottom) for bottom in dict.fromkeys(bottoms)] == lines, width


async def test_without_answers_there_is_no_empty_bar(browser: Browser) -> None:
    farm = demo_farm()
    farm.now, farm.started, farm.has_history = NOW, NOW - 4000, False
    farm.replaced |= {name: {"answers": 7} for name in farm.pools["web"]}
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        assert await page.text(".minute p") == "Counting the answers of the last minute"
        assert await page.run("document.querySelector('.shares.answers').checkVisibility()") is False
        await pass_time(server, page, 2)
        assert await page.text(".minute p") == "No answers in the last minute"
