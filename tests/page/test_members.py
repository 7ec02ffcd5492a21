"""Tests of the members table and of the list of events."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from tests.browser import Browser, browsing
from tests.needs import needs
from tests.page.fake_farm import FakeFarm, demo_farm, large_farm
from tests.page.fake_server import fake_server
from tests.page.page_checks import cells_script, faint_texts, overflow
from tests.page.test_problems import troubled

pytestmark = [needs(programs=("chromium",)), pytest.mark.asyncio(loop_scope="module")]

READY: Final = "document.querySelectorAll('.members tbody tr').length > 2"
#: Script: whether any text in the member blocks runs into the text beside it
OVERLAPS: Final = """(() => {
  const boxes = [...document.querySelectorAll('.members :is(th, td)')].filter(cell => cell.checkVisibility());
  return boxes.filter(cell => cell.scrollWidth > cell.clientWidth + 1 && getComputedStyle(cell).overflowX === 'visible')
    .map(cell => cell.innerText);
})()"""

#: Script: the headings of columns that do not fit into their cells
CUT_HEADINGS: Final = """[...document.querySelectorAll('.members thead :is(th, small)')]
  .filter(cell => cell.checkVisibility() && cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.innerText)"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


async def test_a_state_is_said_once(browser: Browser) -> None:
    farm = troubled(FakeFarm({"web": ["bilbo", "frodo", "gandalf", "sam", "pippin"]}))
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        states = {name: (await page.run(cells_script(name)))["State"] for name in farm.pools["web"]}
        assert states == {
            "bilbo": "◌ drained by root: new kernel", "frodo": "▲ alarm disk full", "gandalf": "▼ forced down by root",
            "sam": "✕ silent", "pippin": "● usable",
        }  # fmt: skip
        opacity = (
            "[...document.querySelectorAll('.members tbody .bar.share')].map(bar => getComputedStyle(bar).opacity)"
        )
        assert await page.run(opacity) == ["1", "1", "1", "1", "0.35"], "only the silent member is dimmed"
        assert page.errors == []


@pytest.mark.parametrize(("reason", "cause"), [
    ("no report for 14 s", ""),
    ("the checks fail; no report for 14 s", "the checks fail"),
    ("its agent stopped 14 s ago", "its agent stopped"),
    ("refused; no check passed for 14 s", "refused; no check passed"),
])  # fmt: skip
async def test_a_row_states_the_age_of_the_report_once(browser: Browser, reason: str, cause: str) -> None:
    """The status is older than the page's clock: two places with the age of the report would show different values."""
    farm = FakeFarm({"web": ["bilbo", "frodo", "gandalf"]}, silent={"frodo"})
    farm.replaced["frodo"] = {"reason": reason}
    age = r"\d+ s"
    said = re.escape(reason).replace(r"14\ s", age)
    async with fake_server(farm, 60) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        await page.until(f"parseInt({cells_script('frodo')}['Report age']) > 15")  # the page counts on
        cells = await page.run(cells_script("frodo"))
        assert cells["State"] == f"✕ silent {cause}".strip()
        await page.until("document.querySelector('.why tbody tr.excluded, .why tbody .silent')")
        assert await page.run(
            "document.querySelector('.why tbody .silent').innerText.replace(/\\s+/g, ' ').trim()"
        ) == (f"✕ silent {cause}".strip())
        await page.run("[...document.querySelectorAll('.opener')][1].click()")
        assert await page.text(".why-state") == (f"silent: {cause}" if cause else "silent")
        await page.click(".chooser summary")
        await page.click("[data-column=age]")
        state = (await page.run(cells_script("frodo")))["State"]
        assert re.fullmatch(f"✕ silent {said}", state), "the column of the age is hidden"
        assert "14 s" not in state
        await page.click("[data-column=age]")
        await page.emulate(390, 900)
        assert re.fullmatch(f"✕ silent {said}", (await page.run(cells_script("frodo")))["State"])
        assert page.errors == []


async def test_a_silent_member_has_no_current_values(browser: Browser) -> None:
    """The values of its last report look better than those of members at work; the details state that they are old."""
    farm = FakeFarm({"web": ["bilbo", "frodo", "gandalf"]}, silent={"frodo"})
    farm.replaced["frodo"] = {"score": 99, "metrics": {"cpu_idle": 99.0, "requests_per_s": 21.8, "busy_workers": 3.0}}
    farm.replaced["bilbo"] = {"state": "drained", "reason": "drained by root", "score": 90}
    async with fake_server(farm, 0.3) as server, browser.page(width=1400, height=3000) as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.why tbody tr').length === 3")
        cells = await page.run(cells_script("frodo"))
        assert [cells[title] for title in ("Score", "Requests/s", "Busy workers", "CPU")] == ["\u2013"] * 4
        assert (await page.run(cells_script("bilbo")))["Score"] == "90"
        why = (
            "[...document.querySelectorAll('.why tbody tr')].map(row => [row.children[0].innerText.split(' ')[0], {}])"
        )
        scores = dict(await page.run(why.format("row.querySelector('[data-title=Score]').innerText")))
        assert scores["frodo"] == "\u2013"
        faint = "[...document.querySelectorAll('.members tbody .bar.parts')].map(bar => getComputedStyle(bar).opacity)"
        assert await page.run(faint) == ["0.35", "0.35", "1"], "a drained member's score is high, but means nothing"
        await page.run("[...document.querySelectorAll('.opener')][1].click()")
        details = await page.text(".details")
        assert "Metrics of the last report, which are old" in details
        assert "21.8" in details
        farm.replaced["frodo"] |= {"age_s": None, "reason": "has never reported"}
        await page.until(f"{cells_script('frodo')}['Report age'] === '\u2013'")
        assert "for \u2013" not in await page.text("main")
        assert page.errors == []


async def test_a_reason_is_shown_whole(browser: Browser) -> None:
    farm = demo_farm()
    reason = "its server-status page cannot be read, and connections are waiting, for 85 s"
    farm.replaced["frodo"] = {"guard": f"quarantined: {reason}"}
    async with fake_server(farm, 60) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        cut = (
            "[...document.querySelectorAll('.members .reason')].filter(found => found.checkVisibility())"
            ".map(found => [found.innerText.replaceAll('\\n', ' '), found.scrollHeight > found.clientHeight + 1])"
        )
        assert await page.run(cut) == [[reason, False]]


def filled(farm: FakeFarm) -> FakeFarm:
    """Let the first two members of ``farm`` have no spare capacity."""
    first, second, *_ = farm.pools["web"]
    farm.replaced[first] = {"score": 0, "score_parts": {"cpu_idle": 0.0, "run_queue": 0.0}}
    farm.replaced[second] = {"metrics": farm.metrics(second, farm.time) | {"idle_workers": 0, "busy_workers": 20}}
    return farm


async def test_a_full_member_is_usable_but_not_like_the_others(browser: Browser) -> None:
    farm = filled(FakeFarm({"web": ["bilbo", "frodo", "gandalf"]}))
    farm.replaced["gandalf"] = {"score": 0, "score_parts": {}}  # no metric of the score is known
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        states = {name: (await page.run(cells_script(name)))["State"] for name in farm.pools["web"]}
        assert states == {"bilbo": "◆ usable, full", "frodo": "◆ usable, full", "gandalf": "● usable"}
        words = "[...document.querySelectorAll('.members .state .word')]"
        assert await page.run(f"{words}.map(word => word.title)") == [
            "its score is 0", "every worker of its web server is busy", "",
        ]  # fmt: skip
        full, _, usable = await page.run(f"{words}.map(word => getComputedStyle(word).color)")
        assert full != usable
        figures = "[...document.querySelectorAll('.figures')].map(list => list.innerText).join(' ')"
        assert "3 of 3" in await page.run(figures)
        assert "no problems" in await page.run("document.querySelector('.health').innerText")
        await page.click(".members .opener")
        assert await page.run("document.querySelector('.why-state').textContent") == "usable, full: its score is 0"
        assert page.errors == []


async def test_headings_state_the_scale_of_bars(browser: Browser) -> None:
    async with fake_server(demo_farm(), 0.3) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        scale = "document.querySelector('.members thead .col-{} small').textContent"
        await page.until(f"/^answers . capacity, 0 to [1-9][0-9]* %$/.test({scale.format('share')})")
        assert await page.run(scale.format("cpu")) == "0 to 100 %"
        assert (await page.run(scale.format("parts"))).startswith("0 to ")
        drawn = (
            "[...document.querySelectorAll('.sparkline')].every(line => line.getContext('2d')"
            ".getImageData(0, 0, line.width, line.height).data.some(value => value > 0))"
        )
        await page.until(f"{drawn} && document.querySelectorAll('.sparkline').length === 6")
        assert page.errors == []


async def test_the_browser_keeps_the_chosen_columns(browser: Browser) -> None:
    async with fake_server(demo_farm(), 60) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/")
        await page.until(READY)
        shown = "[...document.querySelectorAll('.members .col-parts')].filter(cell => cell.checkVisibility()).length"
        assert await page.run(shown) == 4
        await page.click(".chooser summary")
        await page.click("[data-column=parts]")
        assert await page.run(shown) == 0
        await page.press("Escape")
        assert await page.run("document.querySelector('.chooser').open") is False
        await page.open(f"{server.url}/?again")
        await page.until(READY)
        assert await page.run(shown) == 0
        await page.click(".chooser summary")
        await page.click("[data-column=parts]")
        assert await page.run(shown) == 4
        assert page.errors == []


async def test_events_take_one_line_unless_they_are_wrapped(browser: Browser) -> None:
    farm = demo_farm()
    for i, text in enumerate(("lbdns started", "gandalf is silent: " + "no report " * 60)):
        farm.events.append(
            {"id": i, "time": farm.time, "kind": "state", "level": "info", "text": text, "pool": "web", "member": ""}
        )
    async with fake_server(farm, 60) as server, browser.page(width=1400) as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.events li').length === 2")
        heights = "[...document.querySelectorAll('.events li')].map(item => item.clientHeight)"
        long, short = await page.run(heights)
        assert long == short
        await page.run("[...document.querySelectorAll('#log input')].at(-1).click()")
        long, short = await page.run(heights)
        assert long > 2 * short
        assert page.errors == []


async def test_events_name_their_pool_only_if_there_are_several(browser: Browser) -> None:
    text = "pool web: gandalf is silent: no report for 3 s"
    for farm, shown in ((demo_farm(), text.removeprefix("pool web: ")), (large_farm(2, 3), text)):
        farm.events.append(
            {"id": 0, "time": farm.time, "kind": "state", "level": "warning", "text": text, "pool": "web", "member": ""}
        )
        async with fake_server(farm, 60) as server, browser.page(width=1400) as page:
            await page.open(f"{server.url}/")
            await page.until(f"document.querySelector('.events p')?.textContent === '{shown}'")
            assert await page.texts(".events .where") == [""], "not twice"


async def test_a_member_takes_four_lines_on_a_phone(browser: Browser) -> None:
    async with fake_server(demo_farm(), 60) as server, browser.page() as page:
        await page.emulate(390, 2000, phone=True)
        await page.open(f"{server.url}/")
        await page.until(READY)
        rows = await page.run("""[...document.querySelectorAll('.members tbody tr')].map(row => {
          const shown = [...row.querySelectorAll('td, th')].filter(cell => cell.checkVisibility());
          const boxes = shown.map(cell => cell.getBoundingClientRect());
          const middles = boxes.map(({ top, bottom }) => (top + bottom) / 2).sort((a, b) => a - b);
          return middles.filter((middle, i) => i === 0 || middle - middles[i - 1] > 8).length;
        })""")
        assert rows == [4, 4, 4]
        assert await page.run("document.querySelector('#keys').checkVisibility()") is False


async def test_a_page_of_members_needs_no_page_buttons(browser: Browser) -> None:
    for count, is_paged in ((50, False), (51, True)):
        async with fake_server(large_farm(1, count), 60) as server, browser.page() as page:
            await page.open(f"{server.url}/")
            await page.until(READY)
            assert await page.run("document.querySelector('.pages').checkVisibility()") is is_paged


async def test_scales_take_one_line(browser: Browser) -> None:
    async with fake_server(large_farm(1, 30), 0.3) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelector('th.col-share small')?.textContent.includes('.')")
        for width in (820, 1400, 1920):
            await page.emulate(width, 900)
            heights = "[...document.querySelectorAll('.members thead small')].map(scale => scale.clientHeight)"
            assert max(await page.run(heights)) < 20, width


@pytest.mark.parametrize("width", [320, 390, 414, 820, 1400, 1920])
async def test_members_fit_every_screen(browser: Browser, width: int) -> None:
    async with fake_server(troubled(large_farm(1, 30)), 0.5) as server, browser.page() as page:
        for dark in (False, True):
            await page.emulate(width, 800, dark=dark, phone=width < 820)
            await page.open(f"{server.url}/?{dark}")
            await page.until(READY)
            await page.until("!document.querySelector('.members td.col-requests').textContent.includes('\\u2013')")
            assert await overflow(page) == 0
            assert await faint_texts(page) == []
            assert await page.run(OVERLAPS) == []
            is_table = (
                await page.run("getComputedStyle(document.querySelector('.members tbody tr')).display") == "table-row"
            )
            assert is_table is (width >= 820)
            assert not is_table or await page.run(CUT_HEADINGS) == []


async def test_parts_of_a_score_have_fixed_colours(browser: Browser) -> None:
    """A page that shows fewer metrics must not give their colours to others."""
    async with fake_server(demo_farm(), 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        names = ["idle_worker_share", "capacity_used", "run_queue_per_core", "cpu_idle", "idle_workers"]
        script = (
            f"import('/js/metric-labels.js').then(m => {names}.map(name => [m.partColour(name), m.partLabel(name)]))"
        )
        assert await page.run(script) == [
            ["var(--part-5)", "idle worker share"],
            ["var(--part-3)", "capacity free"],
            ["var(--part-0)", "run queue free"],
            ["var(--part-1)", "CPU idle"],
            ["var(--part-5)", "idle workers"],
        ]
