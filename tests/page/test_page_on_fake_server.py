"""Tests of the live page in a real browser with a fake server: contents, controls, accessibility, and disconnection."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.browser import Browser, BrowserPage, browsing
from tests.needs import needs
from tests.page.fake_farm import FakeFarm, demo_farm, large_farm
from tests.page.fake_server import STATIC, FakeServer, fake_server
from tests.page.page_checks import cells_script, faint_texts, overflow, read_until, unnamed_elements

pytestmark = [needs(programs=("chromium",)), pytest.mark.asyncio(loop_scope="module")]

NOW = 1_800_000_000.0  # Unix seconds
EVENTS = (
    {"kind": "server", "level": "info", "text": "lbdns 0.1.0 started"},
    {"kind": "state", "level": "warning", "text": "frodo is silent: no report for 3 s", "pool": "web"},
    {"kind": "fail_open", "level": "error", "text": "pool web fails open: no member is usable", "pool": "web"},
)  # fmt: skip
FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
NO_VALUE = "\u2013"  # shown in place of a missing value
ROWS = "document.querySelectorAll('.members tbody tr:not(.details)').length"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


@contextlib.asynccontextmanager
async def open_page(
    browser: Browser, farm: FakeFarm, interval: float = 60, **screen: Any
) -> AsyncIterator[tuple[FakeServer, BrowserPage]]:
    """Open the page on a fake server; at the end, check that there were no errors and no requests to other servers."""
    async with fake_server(farm, interval) as server, browser.page(**screen) as page:
        await page.open(f"{server.url}/")
        await page.until(f"{ROWS} > 2")
        yield server, page
        assert [error for error in page.errors if "Failed to load resource" not in error] == []
        assert [url for url in page.requested if not url.startswith(server.url)] == []


async def pass_time(server: FakeServer, seconds: float = 4.0) -> None:
    """Advance the farm's clock, and send the new status."""
    assert server.farm.now is not None
    server.farm.now += seconds
    await server.send_status()


async def test_members_are_shown_as_in_the_status(browser: Browser) -> None:
    farm = demo_farm()
    farm.now, farm.started = NOW, NOW - 4000
    async with open_page(browser, farm) as (server, page):
        await pass_time(server)
        gandalf = next(m for m in farm.status()["pools"][0]["members"] if m["name"] == "gandalf")
        await page.until(f"{cells_script('gandalf')}['Score'] === '{gandalf['score']}'")
        await page.until(f"{cells_script('gandalf')}['Answers/s'] !== '{NO_VALUE}'")
        cells = await page.run(cells_script("gandalf"))
        metrics = gandalf["metrics"]
        assert cells["State"] == "● usable"
        assert cells["Share, last minute"].endswith(f" {100 * gandalf['capacity_share']:.1f} %")
        assert float(cells["Answers/s"]) == pytest.approx(1.6 * 0.98, abs=0.3)
        assert float(cells["Requests/s"]) == metrics["requests_per_s"]
        assert float(cells["Busy workers"]) == metrics["busy_workers"]
        assert cells["CPU"] == f"{100 - metrics['cpu_idle']:.0f} %"
        label = await page.run("document.querySelector('.col-parts .bar').getAttribute('aria-label')")
        bilbo = next(m for m in farm.status()["pools"][0]["members"] if m["name"] == "bilbo")
        points = [float(part.rpartition(" ")[2]) for part in label.removeprefix("Parts of the score: ").split(", ")]
        order = ("run_queue", "cpu_idle", "gateway_ping", "requests_per_s", "scan_rate", "idle_workers")
        assert points == pytest.approx([bilbo["score_parts"][metric] for metric in order], abs=0.06)
        assert "usable\n3 of 3" in await page.text(".pool .figures")
        assert "queries/s\n41.0" in await page.text("#server")


async def test_updates_reuse_the_elements(browser: Browser) -> None:
    """An update keeps the row elements, so that focus, selection and scroll position are preserved."""
    farm = demo_farm()
    farm.now, farm.started = NOW, NOW - 4000
    async with open_page(browser, farm) as (server, page):
        await page.run("window.before = [...document.querySelectorAll('.members tr, .members td')]; 1")
        farm.silent.add("frodo")
        farm.replaced["bilbo"] = {"state": "alarm", "alarm": "disk full", "reason": "disk full"}
        override = {"kind": "weight", "member": "gandalf.hobbit", "pool": "", "factor": 0.5, "by": "root",
                    "reason": "new kernel", "since": NOW - 60, "until": NOW + 3600}  # fmt: skip
        farm.replaced["gandalf"] = {"overrides": [override]}
        await pass_time(server)
        await page.until(f"{cells_script('frodo')}['State'] === '✕ silent'")
        assert await page.run(f"{cells_script('bilbo')}['State']") == "▲ alarm disk full"
        assert (await page.run(f"{cells_script('gandalf')}['State']")).startswith("● usable weight \u00d7 0.5")
        description = await page.run("document.querySelector('.badge').title")
        for fact in ("by root", "reason: new kernel", "since ", "until "):
            assert fact in description
        assert "usable\n1 of 3" in await page.text(".pool .figures")
        same = (
            "[...document.querySelectorAll('.members tr, .members td')].every((node, i) => node === window.before[i])"
        )
        assert await page.run(same) is True


async def test_fail_open_and_shadow_policies_are_shown(browser: Browser) -> None:
    farm = demo_farm()
    plain_status = farm.status

    def extended_status() -> dict[str, Any]:
        document = plain_status()
        pool = document["pools"][0]
        pool |= {"fail_open": True, "fail_open_reason": "no member reports"}
        shadow = {"policy": "best", "shadow": "weighted", "score": None, "diverted": 30, "diverted_share": 0.1}
        pool["shadow"] = [shadow | {"answers": {"bilbo": 9}, "share": {"bilbo": 0.3}}]
        weights = {"run_queue": 20.0, "cpu_idle": 80.0}
        document["adaptive"] = {"score": "thesis", "weights": weights, "trials": 9, "accepted": 4, "gain": 0.031}
        document["server"]["history"] |= {"ok": False, "error": "disk full", "dropped": 7}
        return document

    farm.status = extended_status  # type: ignore[method-assign]
    async with open_page(browser, farm) as (_, page):
        assert "Fail open: no member reports" in await page.text(".banner")
        assert "weighted would have sent 10.0 % of the answers to another member (30 answers)" in await page.text(
            ".pool .shadow"
        )
        header = await page.text("#server")
        assert "thesis: response times 3.1 % shorter" in header
        assert "not recording" in header
        assert "disk full; 7 values dropped" in await page.run("document.querySelector('#server .warn').title")
        await page.click(".opener")
        assert "would receive 30.0 % of the answers if weighted replaced best" in await page.text(".details")


async def test_rejected_reports_are_shown_while_there_are_some(browser: Browser) -> None:
    farm = demo_farm()
    farm.now = NOW
    async with open_page(browser, farm) as (server, page):
        hidden = "document.getElementById('rejected').hidden"
        assert await page.run(hidden) is True
        farm.rejected.append({
            "source": "192.0.2.9", "host": "gandlaf", "key_id": "", "member_address": True, "reason": "unknown_host",
            "advice": "no member has this name", "count": 1234, "counts": {"unknown_host": 1234}, "age_s": 0.4,
        })  # fmt: skip
        await pass_time(server)
        await page.until(f"!{hidden}")
        rows = "[...document.querySelectorAll('.rejected tbody tr')].map(row => row.innerText.split('\\t'))"
        assert await page.run(rows) == [[
            "192.0.2.9", "gandlaf", "unsigned", "1,234", "0.4 s ago", "unknown_host: no member has this name",
        ]]  # fmt: skip
        assert await page.run("document.querySelector('.rejected').tHead.innerText.includes('Claims to be')")
        assert await faint_texts(page) == []
        assert await overflow(page) <= 0
        farm.rejected.clear()
        await pass_time(server)
        await page.until(hidden)


async def test_a_large_pool_is_sorted_filtered_and_paged_by_keyboard(browser: Browser) -> None:
    farm = large_farm(2, 200)
    farm.now, farm.started = NOW, NOW - 4000  # so that the scores don't change
    async with open_page(browser, farm) as (_, page):
        assert await page.run(ROWS) == 50
        assert "1 to 50 of 200" in await page.text(".pages")
        await page.run("document.querySelector('.members thead .col-score button').focus()")
        await page.press("Enter")
        await page.until("document.querySelector('.col-score').ariaSort === 'descending'")
        scores = [int(text) for text in await page.texts(".members tbody .col-score")]
        members = farm.status()["pools"][0]["members"]
        current = sorted((member["score"] for member in members if member["state"] != "silent"), reverse=True)
        assert scores == current[:50], "a silent member's score is old"
        await page.press("Enter")
        await page.until("document.querySelector('.col-score').ariaSort === 'ascending'")
        await page.run("document.querySelector('.find input').focus()")
        await page.write("silent")
        await page.until(f"{ROWS} === 3")
        assert sorted(await page.texts(".members .opener")) == ["web-017", "web-078", "web-139"]
        await page.run("document.querySelector('.find input').select()")
        await page.write("web-19")
        await page.until(f"{ROWS} === 10")
        await page.run("document.querySelector('.find input').select()")
        await page.write("no such member")
        await page.until(f"{ROWS} === 0")
        assert await page.run("document.querySelector('.pool .empty').checkVisibility()") is True
        await page.run("document.querySelector('.find input').select()")
        await page.press("Delete")
        await page.run("const find = document.querySelector('.find input'); find.value = '';"
                       "find.dispatchEvent(new Event('input')); 1")  # fmt: skip
        await page.click("button[aria-label='Next page']")
        await page.until("document.querySelector('.place').textContent === '51 to 100 of 200'")
        await page.click(".strip button:nth-child(2)")
        await page.until("document.querySelector('.pool h2').textContent === 'shop1'")
        assert await page.run("location.hash.includes('tab=shop1')") is True


async def test_a_row_opens_and_shows_all_metrics(browser: Browser) -> None:
    farm = demo_farm()
    async with open_page(browser, farm) as (server, page):
        await page.run("document.querySelector('.opener').focus()")
        await page.press("Enter")
        await page.until("document.querySelector('.opener').ariaExpanded === 'true'")
        details = await page.text(".details")
        assert "192.0.2.1" in details
        for name in ("memory available", "network out", "run queue", "gateway ping"):
            assert name in details
        await page.press("Enter")
        await page.until("!document.querySelector('.details')")
        assert server.streams


async def event_tip(page: BrowserPage) -> str:
    """Move the pointer left across the first plot; return the text of the first event that appears, or ""."""
    script = "(b => [b.x, b.y, b.width, b.height])(document.querySelector('.u-over').getBoundingClientRect())"
    left, top, width, height = await page.run(script)
    for offset in range(12, -int(width / 3), -4):
        await page.point(left + width / 3 + offset, top + height / 2)
        await page.run(FRAME)
        if text := await page.run("(t => t.checkVisibility() ? t.innerText : '')(document.querySelector('.tip'))"):
            return str(text)
    return ""


async def test_events_appear_at_once_and_are_marked_in_the_plots(browser: Browser) -> None:
    farm = demo_farm()
    for i, event in enumerate(EVENTS):
        farm.events.append({"id": i, "time": farm.time - 100 * (3 - i), "pool": "", "member": "", **event})
    async with open_page(browser, farm) as (server, page):
        await page.until("document.querySelectorAll('.events li').length === 3")
        assert (await page.texts(".events p"))[0] == EVENTS[-1]["text"]
        assert await page.texts(".events .level") == ["error", "warning", "info"]
        await server.send_event(kind="state", level="warning", text="gandalf is silent: no report for 3 s", pool="web")
        await page.until("document.querySelectorAll('.events li').length === 4")
        assert (await page.texts(".events p"))[0].startswith("gandalf is silent")
        await page.until("document.querySelector('#announce').textContent.includes('gandalf is silent')")
        await page.run("(list => { list.value = 'fail_open'; list.dispatchEvent(new Event('change')); })"
                       "(document.querySelector('#log select'))")  # fmt: skip
        assert await page.texts(".events p") == [EVENTS[2]["text"]]
        # The second event was 200 s old when the page was opened: it starts at a third of the plot and moves left
        await page.run("document.querySelector('.chart').scrollIntoView({ block: 'center' })")
        await page.until("document.querySelector('.u-over')")
        # The plot draws new events at its next tick, up to a second later
        assert "warning: frodo is silent" in await read_until(lambda: event_tip(page), bool)


async def test_the_newest_visibility_counts(browser: Browser) -> None:
    """A busy browser reports several visibility changes in one call, oldest first."""
    async with open_page(browser, demo_farm()) as (_, page):
        found = await page.run("""(async () => {
          const real = IntersectionObserver;
          const callbacks = [];
          window.IntersectionObserver = class { constructor(callback) { callbacks.push(callback); } observe() {} };
          const { LineChart } = await import('/js/line-chart.js');
          const { ExplainPanel } = await import('/js/explain-panel.js');
          const [chart, panel] = [new LineChart('plot'), new ExplainPanel(document.createElement('section'))];
          window.IntersectionObserver = real;
          const after = (...changes) => {
            for (const callback of callbacks) callback(changes.map(isIntersecting => ({ isIntersecting })));
            return [chart.isVisible, panel.isVisible];
          };
          return [callbacks.length, after(true), after(true, false), after(false, true)];
        })()""")
        assert found == [2, [True, True], [False, False], [True, True]]


async def test_an_answer_is_explained(browser: Browser) -> None:
    farm = demo_farm()
    farm.now, farm.started = NOW, NOW - 4000
    farm.silent.add("frodo")
    async with open_page(browser, farm, height=2400) as (_, page):
        await page.until("document.querySelector('.next b')")
        explanation = farm.explain("best.hobbit")
        assert explanation is not None
        following, why, summary = (explanation[key] for key in ("next", "why", "summary"))
        told = f"The next answer for best.hobbit names {following}. {summary[0].upper()}{summary[1:]}."
        assert await page.text(".next") == told
        assert await page.text(".decision") == (
            f"Reason (policy best): {why}. Probability decides how often a member is named, and Credit decides "
            "whose turn it is. A member with a lower score or a higher load can therefore be next."
        )
        assert await page.texts(".plan li") == explanation["plan"]["next"]
        assert await page.text(".why .is-next th") == f"▶{following} next"
        assert "excluded" in await page.text(".why .no-candidate th")
        capacities = await page.texts(".why [data-title=Capacity]")
        shares = [re.search(r"\((\d+)\xa0%\)", text) for text in capacities]
        assert sum(int(share[1]) for share in shares if share) == pytest.approx(100, abs=1), "as in the sentence above"
        assert [share is not None for share in shares] == [True, False, True], "an excluded member has no share"
        await page.run("document.querySelector('.next-answers li:nth-child(2) a').click()")
        await page.until(
            "document.querySelector('.next').innerText.startsWith('The next answer for round.robin.hobbit')"
        )
        assert "round robin" in await page.text("#explain .figures")


async def test_the_explanation_of_a_large_pool_begins_with_the_next_member(browser: Browser) -> None:
    """Its turn may come although other members are named more often."""
    farm = large_farm(1, 30)
    plain_explain = farm.explain
    last = farm.pools["web"][-1]
    farm.explain = lambda name: (plain_explain(name) or {}) | {"next": last}  # type: ignore[method-assign]
    farm.replaced[last] = {"share": 0.0001}
    async with open_page(browser, farm, height=2400) as (_, page):
        await page.until("document.querySelectorAll('.why tbody tr').length === 12")
        assert await page.run("document.querySelector('.why tbody tr th').innerText") == f"\u25b6{last} next"
        capacity = await page.run("document.querySelector('.why [data-title=Capacity]').innerText")
        assert re.search(r" \(\d\.\d\xa0%\)$", capacity), "as precise as in the sentence above"


async def test_the_page_reconnects(browser: Browser) -> None:
    farm = demo_farm()
    async with open_page(browser, farm, 0.3) as (server, page):
        await page.until("document.querySelector('#connection').textContent === 'live'")
        server.go_down()
        # A status received before the connection broke may still be shown afterwards, for a moment
        message = "No connection to the server. This page was last updated at "
        await page.until(
            "document.querySelector('#connection').textContent === 'no connection'"
            f" && document.querySelector('#disconnected').innerText.startsWith('{message}')"
        )
        farm.silent.add("bilbo")
        farm.events.append({"id": 9, "time": farm.time, "pool": "", "member": "", **EVENTS[0]})
        server.is_down = False
        await page.until("document.querySelector('#connection').textContent === 'live'")
        await page.until("!document.querySelector('#disconnected').checkVisibility()")
        await page.until(f"{cells_script('bilbo')}['State'].startsWith('✕ silent')")
        await page.until("document.querySelectorAll('.events li').length === 1")


async def test_servers_of_the_first_versions_are_supported(browser: Browser) -> None:
    farm = demo_farm()
    farm.is_current = False
    async with open_page(browser, farm, 0.3) as (_, page):
        await page.until("document.querySelector('#plots .note').innerText.includes('records no history')")
        await page.until(f"document.querySelector('.chart:nth-child(2) .values td').textContent !== '{NO_VALUE}'")
        farm.silent.add("gandalf")
        await page.until("document.querySelector('.events p')?.textContent === 'gandalf is silent'")
        assert await page.text(".chart:nth-child(5) .note") == "not provided by this server"


async def test_texts_from_hosts_are_never_interpreted_as_markup(browser: Browser) -> None:
    farm = demo_farm()
    evil = "<img src=x onerror='document.title=1'><script>document.title=2</script>"
    farm.replaced["frodo"] = {
        "state": "alarm", "alarm": evil, "reason": evil, "guard": evil, "metrics": {evil: 1.0},
        "score_parts": {evil: 3.0}, "overrides": [{"kind": evil, "by": evil, "reason": evil}],
    }  # fmt: skip
    farm.events.append(
        {"id": 1, "time": farm.time, "kind": evil, "level": evil, "text": evil, "pool": evil, "member": evil}
    )
    async with open_page(browser, farm) as (server, page):
        await page.until("document.querySelector('.events p')")
        await page.click("tbody tr:nth-child(2) .opener")
        await server.send_event(kind=evil, level="error", text=evil)
        await page.until("document.querySelectorAll('.events li').length === 2")
        assert evil in await page.text(".events p")
        assert evil in await page.text(".state .reason:has(:not(:empty))")
        assert (await page.run("document.title")).startswith("(1) best → ")  # one member is in trouble
        assert await page.run("document.querySelectorAll('main img, main script').length") == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_the_page_is_accessible(browser: Browser, dark: bool) -> None:
    farm = large_farm(2, 30)
    farm.replaced["web-001"] = {"state": "alarm", "alarm": "disk", "reason": "disk full"}
    farm.replaced["web-002"] = {"state": "drained", "reason": "drained by root"}
    farm.replaced["web-003"] = {"state": "unknown", "score": None, "age_s": None, "metrics": {}, "score_parts": {}}
    farm.events.extend(
        {"id": i, "time": farm.time, "pool": "", "member": "", **event} for i, event in enumerate(EVENTS)
    )
    async with open_page(browser, farm, dark=dark, height=2500) as (_, page):
        await page.click(".opener")
        await page.until("document.querySelector('.next b')")
        assert await faint_texts(page) == []
        assert await unnamed_elements(page) == []
        assert await page.run("[...document.querySelectorAll('table')].filter(table => !table.caption).length") == 0
        assert await page.run("[...document.querySelectorAll('th')].filter(cell => !cell.scope).length") == 0


async def test_the_page_fits_every_screen(browser: Browser) -> None:
    farm = large_farm(5, 60)
    farm.replaced["web-002"] = {"state": "alarm", "reason": "a reason that is too long for any column " * 4}
    async with open_page(browser, farm) as (_, page):
        await page.until_shown("#explain", "document.querySelector('.next b')")
        for width in (360, 390, 600, 820, 1024, 1280, 1440, 1600, 2560):
            await page.emulate(width, 900, phone=width < 900)
            assert await read_until(lambda: overflow(page), lambda pixels: pixels <= 0) <= 0, (
                width
            )  # plots shrink later
        await page.emulate(390, 844, phone=True)
        assert await page.run("document.querySelector('.sort select').checkVisibility()") is True


async def test_the_vendored_files_match_their_checksums() -> None:
    note = (STATIC / "vendor" / "README.txt").read_text()
    for path in STATIC.glob("vendor/uPlot.*"):
        assert f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" in note
    assert "MIT License" in (STATIC / "vendor" / "LICENSE.uPlot.txt").read_text()
