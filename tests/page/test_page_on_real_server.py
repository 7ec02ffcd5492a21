"""Tests of the live page on a real server with real agents: it agrees with the API, and soon shows silent members."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.browser import PATIENCE, BrowserPage, browsing
from tests.end_to_end.harness import Site, ask, new_site, serving
from tests.end_to_end.process import Program, eventually, python, running
from tests.needs import needs
from tests.page.page_checks import cells_script, read_until

MEMBERS = {"bilbo": ["127.0.0.16"], "frodo": ["127.0.0.17"], "gandalf": ["127.0.0.18"]}
QUERIES = 30
SLOW_UPDATE = 1.5  # seconds; if a new query takes longer to show, the machine is too busy for the limit of 5 s
_SHOWN_QUERIES: Final = (
    "Number(document.querySelector('#server div:nth-child(2) dd').innerText.replace(/[^0-9.]/g, ''))"
)
#: Script: the status from the API and the same values as the page shows them, read together
_READ_BOTH = """(async () => {
  const status = await (await fetch('/api/v1/status')).json();
  const number = text => Number(text.replace(/[^0-9.]/g, ''));
  const cell = (row, key) => row.querySelector(`.col-${key}`).innerText;
  const shown = {};
  for (const row of document.querySelectorAll('.members tbody tr')) {
    const [share, capacity] = cell(row, 'share').trim().split(/\\s*%\\s*/).map(Number);
    const parts = row.querySelector('.col-parts .bar').getAttribute('aria-label').match(/[\\d.]+(?=,|$)/g).map(Number);
    const points = parts.reduce((a, b) => a + b, 0);
    const [score, cpu] = [number(cell(row, 'score')), number(cell(row, 'cpu'))];
    shown[row.querySelector('.opener').textContent] = { score, cpu, share, capacity, points };
  }
  const queries = number(document.querySelector('#server div:nth-child(2) dd').innerText);
  return JSON.stringify({ status, shown, queries });
})()"""
#: Script: refresh the explanation on the page and fetch the same one; a report in between may make them differ
_EXPLAIN_BOTH = """(async () => {
  const text = selector => document.querySelector(selector).innerText;
  const before = text('#explain .figures');
  document.querySelector('#explain .tools button').click();
  const explanation = await (await fetch('/api/v1/explain?name=best.hobbit')).json();
  const { next, summary, why, plan: { next: following }, members } = explanation;
  for (let i = 0; i < 100 && text('#explain .figures') === before; i += 1) {
    await new Promise(done => setTimeout(done, 20));
  }
  const plan = [...document.querySelectorAll('.plan li')].map(item => item.innerText);
  const scores = [...document.querySelectorAll('.why tbody tr')].map(row => Number(row.children[3].innerText));
  return JSON.stringify([
    [next, true, true, following, members.map(member => member.score)],
    [text('.next b'), text('.next').includes(summary.slice(1)), text('.decision').includes(`: ${why}.`), plan, scores],
  ]);
})()"""


@contextlib.contextmanager
def agents(site: Site) -> Iterator[dict[str, Program]]:
    """Run an agent for every member, each reporting once a second."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(
                running(*python(
                    "lbdns_agent", "--collector", f"127.0.0.1:{site.report_port}", "--name", name, "--gateway", "off",
                    "--server-status", "off", "--key-file", str(site.agent_key_file(name)),
                ))
            )
            for name in MEMBERS
        }  # fmt: skip


def agree(both: dict[str, Any]) -> bool:
    """Return whether the page and the status agree. They may differ if a report arrives while both are being read."""
    status, shown = both["status"], both["shown"]
    if both["queries"] != status["server"]["queries"]:
        return False
    for member in status["pools"][0]["members"]:
        row = shown[member["name"]]
        if row["score"] != member["score"]:
            return False
        if abs(row["capacity"] - 100 * member["capacity_share"]) > 0.051:
            return False
        if abs(row["points"] - sum(member["score_parts"].values())) > 0.31:
            return False
        if abs(row["cpu"] - (100 - member["metrics"]["cpu_idle"])) > 0.51:
            return False
    return len(shown) == len(MEMBERS)


def state(site: Site, name: str) -> str:
    found: str = site.members_by_name()[name]["state"]
    return found


def recorded(site: Site) -> bool:
    """Return whether the history has a score for every member; the server writes the history every few seconds."""
    with contextlib.suppress(urllib.error.HTTPError):
        past = json.loads(site.page("/api/v1/history?pool=web&metric=score"))
        return set(past["series"]) == set(MEMBERS) and bool(past["times"])
    return False


def answers(both: dict[str, Any]) -> dict[str, int]:
    """Return the number of answers of each member according to the status."""
    return {member["name"]: member["answers"] for member in both["status"]["pools"][0]["members"]}


async def agreeing_values(page: BrowserPage, expected: dict[str, int]) -> dict[str, Any]:
    """Wait until the page and the status agree and the members have the expected answers, and return both's values."""

    async def read() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await page.run(_READ_BOTH))
        return found

    both = await read_until(read, lambda found: agree(found) and answers(found) == expected)
    assert agree(both), f"page and status differ: {both}"
    assert answers(both) == expected
    return both


async def check_explanation(page: BrowserPage) -> None:
    """Check that the page shows the explanation from the API."""

    async def read() -> list[Any]:
        found: list[Any] = json.loads(await page.run(_EXPLAIN_BOTH))
        return found

    expected, shown = await read_until(read, lambda found: found[0] == found[1])
    assert shown == expected


async def update_delay(site: Site, page: BrowserPage) -> float:
    """Send a query, and return the time (about 1 s) until the page shows the increased query count."""
    before = await page.run(_SHOWN_QUERIES)
    ask(site, "round.robin.hobbit")
    return await page.until(f"{_SHOWN_QUERIES} > {before}")


async def silence_shows_in_time(site: Site, page: BrowserPage, name: str) -> bool:
    """Return whether the page soon shows that a member, whose agent has just died without a last report, is silent."""
    gone = await asyncio.to_thread(eventually, lambda: state(site, name) == "silent", f"{name} is silent", PATIENCE)
    delay = await page.until(f"{cells_script(name)}['State'].startsWith('✕ silent')")
    usual = await update_delay(site, page)
    # Silence begins after three intervals of a second. If the machine is too busy, the page is not to blame
    return (gone + delay < 5 or gone > 4 or usual > SLOW_UPDATE) and delay < max(2.0, 3 * usual)


async def events(site: Site, page: BrowserPage) -> tuple[list[str], list[str]]:
    """Return the texts of all events, newest first: those from the API, without the pool, and those on the page."""
    logged = json.loads(await asyncio.to_thread(site.page, "/api/v1/log"))["events"]
    texts = [event["text"].removeprefix("pool web: ") for event in reversed(logged)]
    return texts, await page.texts(".events p")


@needs(programs=("chromium",))
async def test_the_page_agrees_with_the_api_and_shows_silence(tmp_path: Path) -> None:
    site = new_site(tmp_path, MEMBERS)
    site.write()
    for folder in ("browser", "state"):
        (tmp_path / folder).mkdir()
    with serving(site) as server, agents(site) as running_agents:
        server.until(lambda: recorded(site), "the server has recorded history", PATIENCE)
        async with browsing(tmp_path / "browser") as browser, browser.page() as page:
            await page.open(f"http://127.0.0.1:{site.http_port}/")
            # Only in the member table: the explanation shows states as well
            await page.until("document.querySelectorAll('.members .state.usable').length === 3")
            selected = [str(ask(site, "round.robin.hobbit").answer[0][0]).split(".")[0] for _ in range(QUERIES)]
            both = await agreeing_values(page, {name: selected.count(name) for name in MEMBERS})
            assert both["shown"]["bilbo"]["share"] == round(100 * selected.count("bilbo") / QUERIES, 1)
            # The explanation
            await page.until_shown("#explain", "document.querySelector('.next b')")
            await page.run("document.querySelector('#explain label.check input').click()")  # no automatic refresh
            await check_explanation(page)
            # Plots with history from before the page was opened
            await page.until_shown(
                "#plots",
                "[...document.querySelectorAll('.chart:nth-child(2) td')].every(cell => +cell.textContent > 0)",
            )
            # A busy machine may stop the browser for a while: one of two members must become silent in time
            running_agents["gandalf"].stop(signal.SIGKILL)
            if not await silence_shows_in_time(site, page, "gandalf"):
                running_agents["frodo"].stop(signal.SIGKILL)
                assert await silence_shows_in_time(site, page, "frodo")
            logged, shown = await read_until(lambda: events(site, page), lambda found: found[0] == found[1])
            assert shown == logged
            assert any("gandalf is silent" in text for text in shown)
            assert [url for url in page.requested if not url.startswith(f"http://127.0.0.1:{site.http_port}/")] == []
            assert page.errors == []
