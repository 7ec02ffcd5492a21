"""Tests of the plots in a real browser: zoom, shared cursor, stacked answers, CPU, legends, smoothing, and loading."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.browser import Browser, BrowserPage, browsing
from tests.needs import needs
from tests.page.fake_farm import FakeFarm, demo_farm, large_farm
from tests.page.fake_server import FakeServer, fake_server
from tests.page.page_checks import faint_texts, overflow, read_until
from tests.page.test_page_on_fake_server import NO_VALUE, open_page

pytestmark = [needs(programs=("chromium",)), pytest.mark.asyncio(loop_scope="module")]

#: Script: the number of history responses for a range of one day, within two seconds
DAY_REQUESTS = """performance.getEntriesByType('resource').filter(({ name }) => {
  const parameters = new URL(name).searchParams;
  return name.includes('/api/v1/plots') && Math.abs(parameters.get('to') - parameters.get('from') - 86400) <= 2;
}).length"""
LOADED = (
    "document.querySelectorAll('.plot canvas').length === 6 && !document.querySelector('.chart[aria-busy=true]')"
    " && document.querySelector('.chart .values td').textContent !== '\u2013'"
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


@contextlib.asynccontextmanager
async def open_plots(
    browser: Browser, farm: FakeFarm, fragment: str = "", *, width: int = 1400, dark: bool = False
) -> AsyncIterator[tuple[FakeServer, BrowserPage]]:
    """Open the page, and wait until its plots have their history."""
    async with fake_server(farm, 60) as server, browser.page(width=width, height=2600, dark=dark) as page:
        await page.open(f"{server.url}/#{fragment}")
        await page.until("document.querySelectorAll('.members tbody tr').length > 2")
        await page.until_shown("#plots", LOADED)
        yield server, page
        assert page.errors == []


async def test_plots_show_history_and_newest_values(browser: Browser) -> None:
    began = time.monotonic()
    async with open_page(browser, demo_farm(), height=2000) as (server, page):
        await page.until("document.querySelectorAll('.plot canvas').length === 6")
        await page.until(
            f"[...document.querySelectorAll('.values td')].every(cell => cell.textContent !== '{NO_VALUE}')"
        )
        assert await page.texts(".chart:nth-child(1) .values th") == ["line", "value", "bilbo", "frodo", "gandalf"]
        assert await page.texts(".chart:nth-child(5) .values tbody th") == ["A", "AAAA", "HTTPS"]

        async def newest_scores() -> tuple[list[float], list[float]]:
            values = [float(text) for text in await page.texts(".chart:nth-child(2) .values tbody td")]
            return values, [member["score"] for member in server.farm.status()["pools"][0]["members"]]

        values, scores = await read_until(newest_scores, lambda found: found[0] == pytest.approx(found[1], abs=8))
        assert values == pytest.approx(scores, abs=8)
        # Without the request of the sparklines, whose step is 2 s
        requests = [url for url in page.requested if "/api/v1/plots" in url and "step=2&" not in url]
        # One request fetches the history of all plots, and is repeated every ten seconds
        assert 1 <= len(requests) <= 1 + (time.monotonic() - began) // 10
        await page.click(".segments label:nth-of-type(3)")
        await page.until("location.hash.includes('span=86400')")
        await page.until(f"{DAY_REQUESTS} >= 1")
        # Choose another metric
        await page.run("(list => { list.value = 'mem_available'; list.dispatchEvent(new Event('change')); })"
                       "(document.querySelector('.chart select'))")  # fmt: skip
        await page.until(
            "document.querySelector('.chart:nth-child(3) caption').textContent.startsWith('memory available')"
        )
        # Remove a line
        await page.click(".key")  # then bilbo is among the others
        await page.until("document.querySelectorAll('.chart:nth-child(1) .values tbody tr').length === 3")


async def test_a_large_pool_has_ten_lines(browser: Browser) -> None:
    async with open_page(browser, large_farm(1, 200), height=3000) as (_, page):
        lines = "document.querySelectorAll('.chart:nth-child(2) .values tbody tr').length"
        await page.until(f"{lines} === 11")  # ten members, and a line for all others
        await page.click(
            "tbody tr:nth-child(7) .key[aria-pressed='false'], tbody tr:nth-child(8) .key[aria-pressed='false']"
        )
        await page.until("document.querySelector('.chart:nth-child(2) .values').innerText.match(/web-00[78]/)")
        assert await page.run(lines) == 11
        assert "10 of 200 members" in await page.text("#plots .panel-head .note")


async def plot_area(page: BrowserPage) -> list[float]:
    script = "(b => [b.x, b.y, b.width, b.height])(document.querySelector('.u-over').getBoundingClientRect())"
    found: list[float] = await page.run(script)
    return found


async def drag(page: BrowserPage, begin: float, end: float) -> None:
    """Drag across the first plot, from a fraction of its width to another."""
    left, top, width, height = await plot_area(page)
    for kind, at in (("mousePressed", begin), ("mouseMoved", (begin + end) / 2), ("mouseMoved", end),
                     ("mouseReleased", end)):  # fmt: skip
        await page.call(
            "Input.dispatchMouseEvent", type=kind, x=left + at * width, y=top + height / 2, button="left", buttons=1,
            clickCount=1,
        )  # fmt: skip


async def zoomed_range(page: BrowserPage) -> list[int]:
    """Return the range in the URL, in Unix seconds, or [] if the plots are live."""
    script = "['from', 'to'].map(key => Number(new URLSearchParams(location.hash.slice(1)).get(key))).filter(Boolean)"
    found: list[int] = await page.run(script)
    return found


async def test_dragging_zooms_all_plots_and_escape_returns(browser: Browser) -> None:
    async with open_plots(browser, demo_farm(), "span=3600") as (server, page):
        await drag(page, 0.25, 0.75)
        await page.until("location.hash.includes('from=')")
        start, end = await zoomed_range(page)
        assert end - start == pytest.approx(1800, abs=30)
        assert server.farm.time - end == pytest.approx(900, abs=60)
        await page.until(LOADED)
        assert any(f"from={start}" in url and f"to={end}" in url for url in page.requested)
        assert "to" in await page.text(".range-text")
        await page.run("document.querySelector('.zoom button').focus()")
        await page.press("Escape")
        assert await zoomed_range(page) == []
        await page.until("document.querySelector('input[name=span]:checked').value === '3600'")


async def test_buttons_zoom_and_move(browser: Browser) -> None:
    async with open_plots(browser, demo_farm(), "from=1700000000&to=1700001000") as (_, page):
        for title, expected in (
            ("Zoom in", [1_700_000_250, 1_700_000_750]), ("Later", [1_700_000_500, 1_700_001_000]),
            ("Zoom out", [1_700_000_250, 1_700_001_250]), ("Earlier", [1_699_999_750, 1_700_000_750]),
        ):  # fmt: skip
            await page.click(f".zoom button[title='{title}']")
            assert await zoomed_range(page) == expected
        await page.click(".plot-range > button")
        assert await zoomed_range(page) == []


async def test_one_cursor_for_all_plots(browser: Browser) -> None:
    async with open_plots(browser, demo_farm()) as (_, page):
        left, top, width, height = await plot_area(page)
        await page.point(left + width / 2, top + height / 2)
        positions = "[...document.querySelectorAll('.u-cursor-x')].map(line => line.style.transform)"
        await page.until(f"(all => all.length === 6 && all.every(one => one && one === all[0]))({positions})")
        await page.until("document.querySelector('.cursor-time').textContent.startsWith('at ')")
        await page.point(5, 5)
        # Then it is the time of the newest values, which are below the plots
        await page.until("/^values of [0-9:]{8}$/.test(document.querySelector('.cursor-time').textContent)")


async def test_a_large_pool_is_stacked_with_all_other_members(browser: Browser) -> None:
    async with open_plots(browser, large_farm(1, 60)) as (server, page):
        legend = (await page.texts(".chart:nth-child(1) .values tbody th"))[-1]
        assert legend == "50 others, sum"

        async def sums() -> tuple[float, float]:
            values = [float(text) for text in await page.texts(".chart:nth-child(1) .values tbody td")]
            farm = server.farm
            return sum(values), sum(farm.rate(name, farm.time) for name in farm.pools["web"])

        shown, expected = await read_until(sums, lambda found: found[0] == pytest.approx(found[1], rel=0.1))
        assert shown == pytest.approx(expected, rel=0.1)
        assert (await page.texts(".chart:nth-child(2) .values tbody th"))[-1] == "50 others, mean"


async def test_cpu_is_shown_by_default(browser: Browser) -> None:
    async with open_plots(browser, demo_farm()) as (_, page):
        assert await page.run("document.querySelector('.chart:nth-child(3) select').value") == "cpu"
        assert await page.text(".chart:nth-child(3) .note") == "% busy"
        cpu = [float(text) for text in await page.texts(".chart:nth-child(3) .values tbody td")]
        await page.run("(list => { list.value = 'cpu_idle'; list.dispatchEvent(new Event('change')); })"
                       "(document.querySelector('.chart select'))")  # fmt: skip
        await page.until("document.querySelector('.chart:nth-child(3) caption').textContent.startsWith('CPU idle')")
        await page.until(LOADED)
        idle = [float(text) for text in await page.texts(".chart:nth-child(3) .values tbody td")]
        assert [busy + rest for busy, rest in zip(cpu, idle, strict=True)] == pytest.approx([100] * 3, abs=10)


async def test_a_silent_member_has_no_new_values(browser: Browser) -> None:
    """The last report of a silent member is old, so its values are no values of this moment."""
    farm = demo_farm()
    farm.has_history = False
    farm.silent.add("frodo")
    async with fake_server(farm, 0.5) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        cells = "[...document.querySelectorAll('.chart:nth-child(2) .values tbody td')].map(cell => cell.textContent)"
        await page.until_shown("#plots", f"/^\\d+,[^,]*,\\d+$/.test({cells}.join())")
        assert (await page.run(cells))[1] == NO_VALUE


async def test_types_that_never_occur_have_no_line(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    farm = demo_farm()
    real = FakeFarm.counts
    monkeypatch.setattr(FakeFarm, "counts", staticmethod(lambda uptime, **rates: real(uptime, **rates, ZERO=0)))
    async with open_plots(browser, farm) as (server, page):
        await server.send_status()
        await server.send_status()
        await page.until("document.querySelectorAll('.chart:nth-child(5) tbody tr').length === 3")
        assert await page.texts(".chart:nth-child(5) .values tbody th") == ["A", "AAAA", "HTTPS"]


async def test_calculations(browser: Browser) -> None:
    async with open_plots(browser, demo_farm()) as (_, page):
        found = await page.run("""(async () => {
          const { averageByStep, smooth, smoothingWindow, stack, summarize } = await import('/js/plot-values.js');
          const times = Array.from({ length: 100 }, (_, i) => i);
          const picket = times.map(i => (i % 5 === 0 ? 1 : 0));
          return {
            window: smoothingWindow([picket], 1, 300), busy: smoothingWindow([picket.map(() => 50)], 1, 300),
            idle: smoothingWindow([picket.map(() => 0)], 1, 300), hour: smoothingWindow([picket], 10, 3600),
            smooth: smooth(times, picket, 15), gap: smooth([0, 1, 2], [1, null, 3], 2)[1],
            stack: stack([[1, null, 2, null], [1, 5, null, null]]),
            summary: summarize([0, 1], [[1, null], [3, null]], false), sum: summarize([0], [[1], [3]], true),
            steps: averageByStep({ times: [10, 15, 20], series: { a: [1, 3, null] } }, 10),
          };
        })()""")
        assert (found["window"], found["busy"], found["idle"], found["hour"]) == (15, 0, 0, 60)
        assert found["smooth"] == pytest.approx([0.2] * 100, abs=0.08)  # a constant rate, not a picket fence
        assert found["gap"] is None
        assert found["stack"] == [[1, 0, 2, None], [2, 5, 2, None]]
        assert found["summary"] == {"mean": [2, None], "lowest": [1, None], "highest": [3, None]}
        assert found["sum"] == {"sum": [4]}
        assert found["steps"] == {"times": [10, 20], "series": {"a": [2, None]}}


async def test_plots_show_that_they_are_loading(browser: Browser) -> None:
    async with open_plots(browser, demo_farm()) as (server, page):
        server.history_allowed.clear()
        await page.click(".segments label:nth-of-type(2)")
        await page.until("document.querySelectorAll('.chart[aria-busy=true]').length === 6")
        await page.until("document.querySelector('.loading').checkVisibility()")
        server.history_allowed.set()
        await page.until("!document.querySelector('.chart[aria-busy=true]')")
        assert not await page.run("document.querySelector('.loading').checkVisibility()")


@pytest.mark.parametrize(("width", "dark"), [(320, False), (390, True), (820, False), (1400, True), (1920, False)])
async def test_plots_fit_the_screen(browser: Browser, width: int, dark: bool) -> None:
    zoom = "from=1700000000&to=1700001000"
    async with open_plots(browser, large_farm(1, 30), zoom, width=width, dark=dark) as (_, page):
        await page.until("document.documentElement.scrollWidth === document.documentElement.clientWidth")
        assert await overflow(page) == 0
        assert await faint_texts(page) == []
