"""The live page in a real browser, over a made-up server: what it shows, what can be done with it, what it survives."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.browser import Browser, Page, browsing
from tests.needs import needs
from tests.page.checks import by_title, faint_texts, nameless, overflow, seen
from tests.page.fake import STATIC, FakeServer, Farm, fake_server, large, three

pytestmark = [needs(programs=("chromium",)), pytest.mark.asyncio(loop_scope="module")]

NOW = 1_800_000_000.0  # Unix seconds
EVENTS = (
    {"kind": "server", "level": "info", "text": "lbdns 0.1.0 started"},
    {"kind": "state", "level": "warning", "text": "frodo is silent: no report for 3 s", "pool": "web"},
    {"kind": "fail_open", "level": "error", "text": "pool web fails open: no member is usable", "pool": "web"},
)  # fmt: skip
FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
NOTHING = "\u2013"  # what the page shows where there is no figure
#: How many questions about the last day, within two seconds, have been answered
DAYS_ASKED = """performance.getEntriesByType('resource').filter(({ name }) => {
  const asked = new URL(name).searchParams;
  return name.includes('/api/v1/history') && Math.abs(asked.get('to') - asked.get('from') - 86400) <= 2;
}).length"""
ROWS = "document.querySelectorAll('.members tbody tr:not(.details)').length"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


@contextlib.asynccontextmanager
async def shown(
    browser: Browser, farm: Farm, every: float = 60, **screen: Any
) -> AsyncIterator[tuple[FakeServer, Page]]:
    """A page that shows a farm, and its server, which sends a status when it is told to."""
    async with fake_server(farm, every) as server, browser.page(**screen) as page:
        await page.open(f"{server.url}/")
        await page.until(f"{ROWS} > 2")
        yield server, page
        refused = [complaint for complaint in page.complaints if "Failed to load resource" not in complaint]
        assert refused == []
        assert [url for url in page.requested if not url.startswith(server.url)] == []


async def pass_time(server: FakeServer, seconds: float = 4.0) -> None:
    """Let the farm's clock go on, and the page hear of it."""
    assert server.farm.now is not None
    server.farm.now += seconds
    await server.show()


async def test_members_are_shown_as_the_status_tells_them(browser: Browser) -> None:
    farm = three()
    farm.now, farm.started = NOW, NOW - 4000
    async with shown(browser, farm) as (server, page):
        await pass_time(server)
        gandalf = next(m for m in farm.status()["pools"][0]["members"] if m["name"] == "gandalf")
        await page.until(f"{by_title('gandalf')}['Score'] === '{gandalf['score']}'")
        await page.until(f"{by_title('gandalf')}['Answers/s'] !== '{NOTHING}'")
        cells = await page.run(by_title("gandalf"))
        metrics = gandalf["metrics"]
        assert cells["State"] == "● usable"
        assert cells["Share of answers"] == f"{100 * gandalf['share']:.1f} % {100 * gandalf['capacity_share']:.1f} %"
        assert float(cells["Answers/s"]) == pytest.approx(1.6 * 0.98, abs=0.3)
        assert float(cells["Requests/s"]) == metrics["requests_per_s"]
        assert float(cells["Busy"]) == metrics["busy_workers"]
        assert cells["CPU"] == f"{100 - metrics['cpu_idle']:.0f} %"
        told = await page.run("document.querySelector('.col-parts .bar').getAttribute('aria-label')")
        bilbo = next(m for m in farm.status()["pools"][0]["members"] if m["name"] == "bilbo")
        points = [float(part.rpartition(" ")[2]) for part in told.removeprefix("Parts of the score: ").split(", ")]
        order = ("run_queue", "cpu_idle", "gateway_ping", "requests_per_s", "scan_rate", "idle_workers")
        assert points == pytest.approx([bilbo["score_parts"][metric] for metric in order], abs=0.06)
        assert "usable\n3 of 3" in await page.text(".pool .figures")
        assert "queries/s\n41.0" in await page.text("#server")


async def test_updates_change_what_is_there(browser: Browser) -> None:
    """Rows stay the same elements, so that focus, selection and scrolling survive; what goes wrong is said in words."""
    farm = three()
    farm.now, farm.started = NOW, NOW - 4000
    async with shown(browser, farm) as (server, page):
        await page.run("window.before = [...document.querySelectorAll('.members tr, .members td')]; 1")
        farm.silent.add("frodo")
        farm.told["bilbo"] = {"state": "alarm", "alarm": "disk full", "reason": "disk full"}
        override = {"kind": "weight", "member": "gandalf.hobbit", "pool": "", "factor": 0.5, "by": "root",
                    "reason": "new kernel", "since": NOW - 60, "until": NOW + 3600}  # fmt: skip
        farm.told["gandalf"] = {"overrides": [override]}
        await pass_time(server)
        await page.until(f"{by_title('frodo')}['State'] === '✕ silent no report for 14 s'")
        assert await page.run(f"{by_title('bilbo')}['State']") == "▲ alarm disk full"
        assert (await page.run(f"{by_title('gandalf')}['State']")).startswith("● usable weight \u00d7 0.5")
        story = await page.run("document.querySelector('.badge').title")
        for words in ("by root", "because: new kernel", "since ", "until "):
            assert words in story
        assert "usable\n1 of 3" in await page.text(".pool .figures")
        same = (
            "[...document.querySelectorAll('.members tr, .members td')].every((node, i) => node === window.before[i])"
        )
        assert await page.run(same) is True


async def test_fail_open_and_shadows_are_said(browser: Browser) -> None:
    farm = three()
    status = farm.status

    def dressed() -> dict[str, Any]:
        document = status()
        pool = document["pools"][0]
        pool |= {"fail_open": True, "fail_open_reason": "nobody reports"}
        shadow = {"policy": "best", "shadow": "weighted", "score": None, "diverted": 30, "diverted_share": 0.1}
        pool["shadow"] = [shadow | {"answers": {"bilbo": 9}, "share": {"bilbo": 0.3}}]
        weights = {"run_queue": 20.0, "cpu_idle": 80.0}
        document["adaptive"] = {"score": "thesis", "weights": weights, "trials": 9, "accepted": 4, "gain": 0.031}
        document["server"]["history"] |= {"ok": False, "error": "disk full", "dropped": 7}
        return document

    farm.status = dressed  # type: ignore[method-assign]
    async with shown(browser, farm) as (_, page):
        assert "Fail open: nobody reports" in await page.text(".banner")
        assert "weighted would have sent 10.0 % of the answers elsewhere (30)" in await page.text(".pool .shadow")
        head = await page.text("#server")
        assert "thesis: 3.1 % shorter" in head
        assert "not recording" in head
        assert "disk full; 7 values dropped" in await page.run("document.querySelector('#server .warn').title")
        await page.click(".opener")
        assert "30.0 % of the answers if weighted were best" in await page.text(".details")


async def test_a_large_pool_is_sorted_filtered_and_paged_by_keyboard(browser: Browser) -> None:
    farm = large(2, 200)
    farm.now, farm.started = NOW, NOW - 4000  # rows stay where they are for a while although their scores change
    async with shown(browser, farm) as (_, page):
        assert await page.run(ROWS) == 50
        assert "1 to 50 of 200" in await page.text(".pages")
        await page.run("document.querySelector('.members thead .col-score button').focus()")
        await page.press("Enter")
        await page.until("document.querySelector('.col-score').ariaSort === 'descending'")
        scores = [int(text) for text in await page.texts(".members tbody .col-score")]
        every = sorted((member["score"] for member in farm.status()["pools"][0]["members"]), reverse=True)
        assert scores == every[:50]
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
        await page.write("nobody")
        await page.until(f"{ROWS} === 0")
        assert await page.run("document.querySelector('.pool .empty').checkVisibility()") is True
        await page.run("document.querySelector('.find input').select()")
        await page.press("Delete")
        await page.run("const find = document.querySelector('.find input'); find.value = '';"
                       "find.dispatchEvent(new Event('input')); 1")  # fmt: skip
        await page.click("button[aria-label='Rows after']")
        await page.until("document.querySelector('.place').textContent === '51 to 100 of 200'")
        # The other pool, whose rows are others
        await page.click(".strip button:nth-child(2)")
        await page.until("document.querySelector('.pool h2').textContent === 'shop1'")
        assert await page.run("location.hash.includes('pool=shop1')") is True


async def test_a_row_opens_and_tells_everything(browser: Browser) -> None:
    farm = three()
    async with shown(browser, farm) as (server, page):
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


async def test_plots_have_a_past_and_values(browser: Browser) -> None:
    began = time.monotonic()
    async with shown(browser, three(), height=2000) as (server, page):
        await page.until("document.querySelectorAll('.plot canvas').length === 6")
        await page.until(
            f"[...document.querySelectorAll('.values td')].every(cell => cell.textContent !== '{NOTHING}')"
        )
        assert await page.texts(".chart:nth-child(1) .values th") == ["line", "value", "bilbo", "frodo", "gandalf"]
        assert await page.texts(".chart:nth-child(5) .values tbody th") == ["A", "AAAA", "HTTPS"]

        async def newest() -> tuple[list[float], list[float]]:
            values = [float(text) for text in await page.texts(".chart:nth-child(2) .values tbody td")]
            return values, [member["score"] for member in server.farm.status()["pools"][0]["members"]]

        values, scores = await seen(newest, lambda found: found[0] == pytest.approx(found[1], abs=8))
        assert values == pytest.approx(scores, abs=8)
        asked = [url for url in page.requested if "/api/v1/history" in url]
        # Once each; on a machine so busy that it has been open for long, every ten seconds again
        assert 6 <= len(asked) <= 6 * (1 + (time.monotonic() - began) // 10)
        await page.click(".segments label:nth-of-type(3)")
        await page.until("location.hash.includes('span=86400')")
        await page.until(f"{DAYS_ASKED} >= 6")
        # Any metric
        await page.run("(list => { list.value = 'mem_available'; list.dispatchEvent(new Event('change')); })"
                       "(document.querySelector('.chart select'))")  # fmt: skip
        await page.until(
            "document.querySelector('.chart:nth-child(3) caption').textContent.startsWith('memory available')"
        )
        # One line less
        await page.click(".key")
        await page.until("document.querySelectorAll('.chart:nth-child(1) .values tbody tr').length === 2")


async def test_of_many_members_some_are_plotted(browser: Browser) -> None:
    async with shown(browser, large(1, 200), height=3000) as (_, page):
        lines = "document.querySelectorAll('.chart:nth-child(2) .values tbody tr').length"
        await page.until(f"{lines} === 10")
        await page.click(
            "tbody tr:nth-child(7) .key[aria-pressed='false'], tbody tr:nth-child(8) .key[aria-pressed='false']"
        )
        await page.until("document.querySelector('.chart:nth-child(2) .values').innerText.match(/web-00[78]/)")
        assert await page.run(lines) == 10
        assert "10 of 200 members" in await page.text("#plots .panel-head .note")


async def tip(page: Page) -> str:
    """What the first plot tells about a third of its width, where the pointer first finds something; "" if nowhere."""
    script = "(b => [b.x, b.y, b.width, b.height])(document.querySelector('.u-over').getBoundingClientRect())"
    left, top, width, height = await page.run(script)
    for aside in range(12, -int(width / 3), -4):
        await page.point(left + width / 3 + aside, top + height / 2)
        await page.run(FRAME)  # in which the plot follows the pointer
        if told := await page.run("(t => t.checkVisibility() ? t.innerText : '')(document.querySelector('.tip'))"):
            return str(told)
    return ""


async def test_events_come_at_once_and_are_marks_in_the_plots(browser: Browser) -> None:
    farm = three()
    for i, event in enumerate(EVENTS):
        farm.events.append({"id": i, "time": farm.time - 100 * (3 - i), "pool": "", "member": "", **event})
    async with shown(browser, farm) as (server, page):
        await page.until("document.querySelectorAll('.events li').length === 3")
        assert (await page.texts(".events p"))[0] == EVENTS[-1]["text"]
        assert await page.texts(".events .level") == ["error", "warning", "info"]
        await server.tell(kind="state", level="warning", text="gandalf is silent: no report for 3 s", pool="web")
        await page.until("document.querySelectorAll('.events li').length === 4")
        assert (await page.texts(".events p"))[0].startswith("gandalf is silent")
        await page.until("document.querySelector('#announce').textContent.includes('gandalf is silent')")
        await page.run("(list => { list.value = 'fail_open'; list.dispatchEvent(new Event('change')); })"
                       "(document.querySelector('#log select'))")  # fmt: skip
        assert await page.texts(".events p") == [EVENTS[2]["text"]]
        # The middle one was 200 s ago when the page was opened: at a third of a plot of five minutes, and it moves left
        await page.run("document.querySelector('.chart').scrollIntoView({ block: 'center' })")
        await page.until("document.querySelector('.u-over')")
        # Again and again: the plot is drawn with what happened at its next tick, up to a second later
        assert "warning: frodo is silent" in await seen(lambda: tip(page), bool)


async def test_what_came_into_sight_last_counts(browser: Browser) -> None:
    """A busy browser tells of several changes at once, oldest first: the plot and the explanation are in sight."""
    async with shown(browser, three()) as (_, page):
        found = await page.run("""(async () => {
          const real = IntersectionObserver;
          const tell = [];
          window.IntersectionObserver = class { constructor(told) { tell.push(told); } observe() {} };
          const { Chart } = await import('/js/chart.js');
          const { Explain } = await import('/js/explain.js');
          const [chart, explain] = [new Chart('plot'), new Explain(document.createElement('section'))];
          window.IntersectionObserver = real;
          const after = (...seen) => {
            for (const told of tell) told(seen.map(isIntersecting => ({ isIntersecting })));
            return [chart.visible, explain.seen];
          };
          return [tell.length, after(true), after(true, false), after(false, true)];
        })()""")
        assert found == [2, [True, True], [False, False], [True, True]]


async def test_why(browser: Browser) -> None:
    farm = three()
    farm.now, farm.started = NOW, NOW - 4000
    farm.silent.add("frodo")
    async with shown(browser, farm, height=2400) as (_, page):
        await page.until("document.querySelector('.next b')")
        told = farm.explain("best.hobbit")
        assert told is not None
        assert await page.text(".next") == f"The next answer for best.hobbit is {told['next']}, because {told['why']}."
        assert await page.texts(".plan li") == told["plan"]["next"]
        assert await page.text(".why .is-next th") == f"▶{told['next']} next"
        assert "not now" in await page.text(".why .no-candidate th")
        await page.run("document.querySelector('.names li:nth-child(2) a').click()")
        await page.until(
            "document.querySelector('.next').innerText.startsWith('The next answer for round.robin.hobbit')"
        )
        assert "round robin" in await page.text("#explain .figures")


async def test_a_cut_is_said_and_mended(browser: Browser) -> None:
    farm = three()
    async with shown(browser, farm, 0.3) as (server, page):
        await page.until("document.querySelector('#link').textContent === 'live'")
        server.hang_up()
        # A status that came before may be shown after the cut is, and then the cut once more
        words = "No connection to the server. What you see is from "
        await page.until(
            "document.querySelector('#link').textContent === 'no connection'"
            f" && document.querySelector('#old').innerText.startsWith('{words}')"
        )
        farm.silent.add("bilbo")
        farm.events.append({"id": 9, "time": farm.time, "pool": "", "member": "", **EVENTS[0]})
        server.cut = False
        await page.until("document.querySelector('#link').textContent === 'live'")
        await page.until("!document.querySelector('#old').checkVisibility()")
        await page.until(f"{by_title('bilbo')}['State'].startsWith('✕ silent')")
        await page.until("document.querySelectorAll('.events li').length === 1")


async def test_a_server_of_the_first_versions_is_shown_too(browser: Browser) -> None:
    farm = three()
    farm.newer = False
    async with shown(browser, farm, 0.3) as (_, page):
        await page.until("document.querySelector('#plots .note').innerText.includes('keeps no history')")
        await page.until(f"document.querySelector('.chart:nth-child(2) .values td').textContent !== '{NOTHING}'")
        farm.silent.add("gandalf")
        await page.until("document.querySelector('.events p')?.textContent === 'gandalf is silent'")
        assert await page.text(".chart:nth-child(5) .note") == "not told by this server"


async def test_what_a_host_says_is_never_taken_for_markup(browser: Browser) -> None:
    farm = three()
    evil = "<img src=x onerror='document.title=1'><script>document.title=2</script>"
    farm.told["frodo"] = {
        "state": "alarm", "alarm": evil, "reason": evil, "guard": evil, "metrics": {evil: 1.0},
        "score_parts": {evil: 3.0}, "overrides": [{"kind": evil, "by": evil, "reason": evil}],
    }  # fmt: skip
    farm.events.append(
        {"id": 1, "time": farm.time, "kind": evil, "level": evil, "text": evil, "pool": evil, "member": evil}
    )
    async with shown(browser, farm) as (server, page):
        await page.until("document.querySelector('.events p')")
        await page.click("tbody tr:nth-child(2) .opener")
        await server.tell(kind=evil, level="error", text=evil)
        await page.until("document.querySelectorAll('.events li').length === 2")
        assert evil in await page.text(".events p")
        assert evil in await page.text(".state .reason:not(:empty)")
        assert await page.run("document.title") == "lbdns"
        assert await page.run("document.querySelectorAll('main img, main script').length") == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_it_can_be_read_and_heard(browser: Browser, dark: bool) -> None:
    farm = large(2, 30)
    farm.told["web-001"] = {"state": "alarm", "alarm": "disk", "reason": "disk full"}
    farm.told["web-002"] = {"state": "drained", "reason": "drained by root"}
    farm.told["web-003"] = {"state": "unknown", "score": None, "age_s": None, "metrics": {}, "score_parts": {}}
    farm.events.extend(
        {"id": i, "time": farm.time, "pool": "", "member": "", **event} for i, event in enumerate(EVENTS)
    )
    async with shown(browser, farm, dark=dark, height=2500) as (_, page):
        await page.click(".opener")
        await page.until("document.querySelector('.next b')")
        assert await faint_texts(page) == []
        assert await nameless(page) == []
        assert await page.run("[...document.querySelectorAll('table')].filter(table => !table.caption).length") == 0
        assert await page.run("[...document.querySelectorAll('th')].filter(cell => !cell.scope).length") == 0


async def test_every_screen_is_wide_enough(browser: Browser) -> None:
    farm = large(5, 60)
    farm.told["web-002"] = {"state": "alarm", "reason": "a reason that is so long that it fits into no column " * 4}
    async with shown(browser, farm) as (_, page):
        await page.until_shown("#explain", "document.querySelector('.next b')")
        for width in (360, 390, 600, 820, 1024, 1280, 1440, 1600, 2560):
            await page.emulate(width, 900, phone=width < 900)
            assert await seen(lambda: overflow(page), lambda pixels: pixels <= 0) <= 0, width  # once plots have shrunk
        await page.emulate(390, 844, phone=True)
        assert await page.run("document.querySelector('.sort select').checkVisibility()") is True


async def test_static_files_say_what_is_vendored() -> None:
    """The copies of uPlot are those that the note beside them names."""
    note = (STATIC / "vendor" / "README.txt").read_text()
    for path in STATIC.glob("vendor/uPlot.*"):
        assert f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" in note
    assert "MIT License" in (STATIC / "vendor" / "LICENSE.uPlot.txt").read_text()
