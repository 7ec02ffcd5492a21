"""The page over a real server with real agents: it shows what the interface says, and a silent member within 5 s."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.browser import PATIENCE, Page, browsing
from tests.end_to_end.harness import Site, ask, new_site, serving
from tests.end_to_end.process import Program, eventually, python, running
from tests.needs import needs
from tests.page.checks import by_title, seen

MEMBERS = {"bilbo": ["127.0.0.16"], "frodo": ["127.0.0.17"], "gandalf": ["127.0.0.18"]}
QUERIES = 30
BUSY = 1.5  # seconds until a count shows, from which on the machine is too busy to hold the page to seconds
_SHOWN_QUERIES: Final = (
    "Number(document.querySelector('#server div:nth-child(2) dd').innerText.replace(/[^0-9.]/g, ''))"
)
#: The status, as the page's own origin tells it, and what the page shows, looked at together
_BOTH = """(async () => {
  const told = await (await fetch('/api/v1/status')).json();
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
  return JSON.stringify({ told, shown, queries });
})()"""
#: Ask for an explanation, and have the page do so; between the two a report may change it
_EXPLAINED = """(async () => {
  const text = selector => document.querySelector(selector).innerText;
  const before = text('#explain .figures');
  document.querySelector('#explain .tools button').click();
  const told = await (await fetch('/api/v1/explain?name=best.hobbit')).json();
  for (let i = 0; i < 100 && text('#explain .figures') === before; i += 1) {
    await new Promise(done => setTimeout(done, 20));
  }
  const plan = [...document.querySelectorAll('.plan li')].map(item => item.innerText);
  const scores = [...document.querySelectorAll('.why tbody tr')].map(row => Number(row.children[3].innerText));
  return JSON.stringify([
    [`The next answer for ${told.name} is ${told.next}, because ${told.why}.`, told.plan.next,
     told.members.map(member => member.score)],
    [text('.next'), plan, scores],
  ]);
})()"""


@contextlib.contextmanager
def agents(site: Site) -> Iterator[dict[str, Program]]:
    """A real agent for every member, reporting once a second."""
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
    """Whether the page shows what the status tells; a report between the two looks makes them differ for a moment."""
    told, shown = both["told"], both["shown"]
    if both["queries"] != told["server"]["queries"]:
        return False
    for member in told["pools"][0]["members"]:
        seen = shown[member["name"]]
        if seen["score"] != member["score"] or abs(seen["share"] - 100 * member["share"]) > 0.051:
            return False
        if abs(seen["capacity"] - 100 * member["capacity_share"]) > 0.051:
            return False
        if abs(seen["points"] - sum(member["score_parts"].values())) > 0.31:
            return False
        if abs(seen["cpu"] - (100 - member["metrics"]["cpu_idle"])) > 0.51:
            return False
    return len(shown) == len(MEMBERS)


def state(site: Site, name: str) -> str:
    found: str = site.members_by_name()[name]["state"]
    return found


def recorded(site: Site) -> bool:
    """Whether the history has every member's score; it is written every few seconds."""
    with contextlib.suppress(urllib.error.HTTPError):
        past = json.loads(site.page("/api/v1/history?pool=web&metric=score"))
        return set(past["series"]) == set(MEMBERS) and bool(past["times"])
    return False


async def compare(page: Page) -> dict[str, Any]:
    """What both say as soon as they agree."""

    async def look() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await page.run(_BOTH))
        return found

    both = await seen(look, agree)
    assert agree(both), f"the page and the status don't agree: {both}"
    return both


async def explained(page: Page) -> None:
    """The page explains as the interface does."""

    async def look() -> list[Any]:
        found: list[Any] = json.loads(await page.run(_EXPLAINED))
        return found

    told, shown = await seen(look, lambda found: found[0] == found[1])
    assert shown == told


async def news(site: Site, page: Page) -> float:
    """In how many seconds the page shows one more query: in about one, after which counts are looked at again."""
    before = await page.run(_SHOWN_QUERIES)
    ask(site, "round.robin.hobbit")
    return await page.until(f"{_SHOWN_QUERIES} > {before}")


async def events(site: Site, page: Page) -> tuple[list[str], list[str]]:
    """The texts of the events, newest first: as the interface tells them, and as the page does."""
    told = json.loads(await asyncio.to_thread(site.page, "/api/v1/log"))["events"]
    return [event["text"] for event in reversed(told)], await page.texts(".events p")


@needs(programs=("chromium",))
async def test_the_page_equals_the_interface_and_shows_silence(tmp_path: Path) -> None:
    site = new_site(tmp_path, MEMBERS)
    site.write()
    for folder in ("browser", "state"):
        (tmp_path / folder).mkdir()
    with serving(site) as server, agents(site) as running_agents:
        server.until(lambda: recorded(site), "there is a history", PATIENCE)
        async with browsing(tmp_path / "browser") as browser, browser.page() as page:
            await page.open(f"http://127.0.0.1:{site.http_port}/")
            # In the table of members: the explanation shows states too, as soon as it has been seen
            await page.until("document.querySelectorAll('.members .state.usable').length === 3")
            handed_out = [str(ask(site, "round.robin.hobbit").answer[0][0]).split(".")[0] for _ in range(QUERIES)]
            both = await compare(page)
            answers = {member["name"]: member["answers"] for member in both["told"]["pools"][0]["members"]}
            assert answers == {name: handed_out.count(name) for name in MEMBERS}
            assert both["shown"]["bilbo"]["share"] == round(100 * handed_out.count("bilbo") / QUERIES, 1)
            # The explanation
            await page.until_shown("#explain", "document.querySelector('.next b')")
            await page.run("document.querySelector('#explain label.check input').click()")  # only when it is told to
            await explained(page)
            # The past, which is longer than the page is open
            await page.until_shown(
                "#plots", "[...document.querySelectorAll('.chart:nth-child(2) td')].every(one => +one.textContent > 0)"
            )
            usual = await news(site, page)
            # An agent that dies without a word
            running_agents["gandalf"].stop(signal.SIGKILL)
            gone = await asyncio.to_thread(
                eventually, lambda: state(site, "gandalf") == "silent", "it is silent", PATIENCE
            )
            late = await page.until(f"{by_title('gandalf')}['State'].startsWith('✕ silent')")
            usual = max(usual, await news(site, page))
            # After three intervals of a second; a machine too busy to tell by then is not the page's doing
            assert gone + late < 5 or gone > 4 or usual > BUSY
            assert late < max(2.0, 3 * usual)
            told, shown = await seen(lambda: events(site, page), lambda found: found[0] == found[1])
            assert shown == told
            assert any("gandalf is silent" in text for text in shown)
            assert [url for url in page.requested if not url.startswith(f"http://127.0.0.1:{site.http_port}/")] == []
            assert page.complaints == []
