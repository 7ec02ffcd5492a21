"""Tests of the live page's panel "Problems", and of the title and icon of the browser tab."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.browser import Browser, browsing
from tests.needs import needs
from tests.page.fake_farm import FakeFarm, demo_farm, large_farm
from tests.page.fake_server import fake_server
from tests.page.page_checks import faint_texts, overflow, read_until

pytestmark = [needs(programs=("chromium",)), pytest.mark.asyncio(loop_scope="module")]

WIDTHS = (320, 390, 820, 1400, 1920)  # CSS pixels
HIDDEN = "document.getElementById('problems').hidden"
ICON = "new URL(document.getElementById('icon').href).pathname"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


async def test_a_full_member_is_a_notice_and_a_full_pool_a_problem(browser: Browser) -> None:
    farm = FakeFarm({"web": ["bilbo", "frodo"]})
    farm.now = farm.time  # an update may come at once; the clock moves only when the test says so
    full = {"score": 0, "score_parts": {"cpu_idle": 0.0}}
    async with fake_server(farm, 60) as server, browser.page() as page:
        farm.replaced["bilbo"] = full
        await page.open(f"{server.url}/")
        await page.until(f"!{HIDDEN}")
        assert await page.texts(".problem-head") == ["bilbo full"]
        text = await page.text("#problems")
        assert "its score is 0, since before this page was opened" in text
        assert "No action is needed" in text
        assert "no problems" in await page.text(".health")
        farm.replaced["frodo"] = full
        await server.send_status()
        await page.until("document.querySelectorAll('.members .word')[1].innerText === 'usable, full'")
        assert await page.texts(".problem-head") == ["bilbo full"], "a member may be full for a moment"
        assert farm.now is not None
        farm.now += 11
        await server.send_status()
        await page.until("document.querySelector('.problem-head').innerText.startsWith('web full since')")
        text = await page.text("#problems")
        assert "no member that answers name has spare capacity" in text
        assert "Add servers to the pool" in text
        assert "1 problem" in await page.text(".health")
        assert page.errors == []


def troubled(farm: FakeFarm) -> FakeFarm:
    """Give the first members of ``farm`` a drain, an alarm and a forced state, and let the next member be silent."""
    first, second, third, fourth, *_ = farm.pools["web"]
    override = {"member": "", "pool": "", "factor": 1.0, "by": "root", "reason": "", "until": None}
    farm.replaced[first] = {
        "state": "drained", "reason": "drained by root: new kernel",
        "overrides": [override | {"kind": "drain", "since": farm.time - 600}],
    }  # fmt: skip
    farm.replaced[second] = {"state": "alarm", "alarm": "disk full", "reason": "alarm: disk full"}
    farm.replaced[third] = {
        "state": "alarm", "reason": "forced down by root",
        "overrides": [override | {"kind": "down", "since": farm.time - 60}],
    }  # fmt: skip
    farm.silent.add(fourth)
    return farm


async def test_problems_say_what_is_wrong_since_when_and_what_to_do(browser: Browser) -> None:
    farm = FakeFarm({"web": ["bilbo", "frodo", "gandalf", "sam", "pippin"]})
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.members tbody tr').length === 5")
        assert await page.run(HIDDEN) is True
        assert re.fullmatch(r"best → \w+/icon.svg", await page.run(f"document.title + {ICON}"))
        troubled(farm)
        farm.rejected.append({
            "source": "192.0.2.9", "host": "gandlaf", "key_id": "", "member_address": True, "reason": "unknown_host",
            "advice": "no member has this name", "count": 9, "counts": {"unknown_host": 9}, "age_s": 0.4,
        })  # fmt: skip
        await server.send_status()
        await page.until(f"!{HIDDEN}")
        heads = await page.texts(".problem-head")
        assert [head.split(" since ")[0] for head in heads] == [
            "sam silent", "frodo alarm", "gandlaf rejected reports", "gandalf forced down", "bilbo drained",
        ]  # fmt: skip
        assert [" since " in head for head in heads] == [True, False, False, True, True]
        text = await page.text("#problems")
        for part in ("by root: new kernel", "lbdns undrain bilbo.hobbit", "disk full",
                     "lbdns force gandalf.hobbit auto", "no member has this name"):  # fmt: skip
            assert part in text
        assert "no report for" not in text  # the head states since when
        # The states that an operator has ordered are no trouble
        assert re.fullmatch(r"\(3\) best → \w+/icon-trouble.svg", await page.run(f"document.title + {ICON}"))
        # An event states when the alarm began
        await server.send_event(kind="state", level="warning", text="frodo is in alarm", pool="web", member="frodo")
        await server.send_status()
        await page.until("document.querySelectorAll('.problem-head')[1].innerText.includes('since')")
        farm.replaced.clear()
        farm.silent.clear()
        farm.rejected.clear()
        await server.send_status()
        await page.until(HIDDEN)
        assert re.fullmatch(r"best → \w+/icon.svg", await page.run(f"document.title + {ICON}"))
        assert page.errors == []


async def test_a_server_that_is_cut_off_from_the_others_is_a_problem(browser: Browser) -> None:
    farm = demo_farm()
    farm.shared = {
        "connected": False, "server": "ns1", "cut_off_since": farm.time - 90, "problem": "JetStream: no reply",
        "orders": 3, "pending": 2, "counts": {},
    }  # fmt: skip
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until(f"!{HIDDEN}")
        [head] = await page.texts(".problem-head")
        assert head.startswith("lbdns overrides since ")
        shown = await page.text("#problems")
        assert "cut off from the servers that share overrides: JetStream: no reply; orders not sent yet: 2" in shown
        farm.shared = {**farm.shared, "connected": True, "problem": "", "cut_off_since": None, "pending": 0}
        await server.send_status()
        await page.until(HIDDEN)
        assert page.errors == []


async def test_answers_that_are_not_shared_are_a_problem(browser: Browser) -> None:
    farm = demo_farm()
    farm.shared_answers = {"connected": False, "problem": "permissions violation", "servers": [], "counts": {}}
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until(f"!{HIDDEN}")
        shown = await page.text("#problems")
        assert "answers are not shared with the other servers: permissions violation" in shown
        farm.shared_answers = {**farm.shared_answers, "connected": True, "problem": ""}
        await server.send_status()
        await page.until(HIDDEN)
        assert page.errors == []


async def test_a_bus_without_a_connection_is_a_problem(browser: Browser) -> None:
    farm = demo_farm()
    farm.bus = {"connected": False, "server": "", "problem": "nats://10.0.0.5:4222: Connection refused", "counts": {}}
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until(f"!{HIDDEN}")
        assert await page.texts(".problem-head") == ["lbdns bus"]
        assert "no reports arrive from the bus: nats://10.0.0.5:4222: Connection refused" in await page.text(
            "#problems"
        )
        farm.bus = {"connected": True, "server": "nats://10.0.0.5:4222", "problem": "", "counts": {}}
        await server.send_status()
        await page.until(HIDDEN)
        assert page.errors == []


async def test_a_pool_that_uses_its_backup_says_so(browser: Browser) -> None:
    """The answer panel and the problems state which share of the answers the backup gets, why, and since when."""
    farm = FakeFarm({"web": ["bilbo", "frodo", "gandalf"], "spare": ["sam"]})
    text = "pool web: has no usable member; all answers name members of its backup spare"
    logged(farm, 5000, "backup", "warning", text)
    logged(farm, 4900, "backup", "info", "pool web: no longer sends clients to its backup spare")
    logged(farm, 600, "backup", "warning", "pool web: is full; some answers name members of its backup spare")
    logged(farm, 60, "backup", "warning", text)
    use = "document.querySelector('.uses-backup:not([hidden])')"
    async with fake_server(farm, 60) as server, browser.page() as page:
        farm.backups["web"] = {"pool": "spare", "share": 0.0, "why": ""}
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.members tbody tr').length === 4")
        assert await page.run(f"{use} === null")
        for share, why, said in (
            (0.234, "is full", "23 % of the answers name members of pool spare, because pool web is full"),
            (1.0, "has no usable member", "All answers name members of pool spare, because pool web has no usable"),
        ):
            farm.backups["web"] = {"pool": "spare", "share": share, "why": why}
            await server.send_status()
            await page.until(f"{use}?.textContent.startsWith('{said}')")
            assert "(backup in use since " in await page.text(".uses-backup")
            problem = await page.text(".problems .trouble")
            assert re.match(r"web uses its backup since \d\d:\d\d:\d\d, for 1\d min\n", problem), problem
            assert f"{why}: {said[0].lower()}{said[1:]}".split(", because")[0] in problem
        farm.backups["web"] = {"pool": "spare", "share": 0.4, "why": "takes its clients back"}
        await server.send_status()
        await page.until(
            f"{use}?.textContent.startsWith('40 % of the answers name members of pool spare, while pool web takes')"
        )
        assert "No action is needed" in await page.text(".problems .planned")
        farm.backups["web"] = {"pool": "spare", "share": 0.0, "why": ""}
        await server.send_event(
            kind="backup", level="info", text="pool web: no longer sends clients to its backup spare", pool="web"
        )
        await server.send_status()
        await page.until(f"{use} === null")
        await page.until("document.querySelector('.problems .ended')?.innerText.startsWith('web uses its backup')")
        assert "is full; some answers" in await page.text(".problems .ended")
        assert page.errors == []


async def test_a_broken_member_that_the_pool_needs_is_a_problem(browser: Browser) -> None:
    """A member in slow start needs no help; a member that serves no requests does, although answers still name it."""
    farm = demo_farm()
    farm.replaced["bilbo"] = {"guard": "ramp 40%"}
    farm.replaced["frodo"] = {"guard": "needed although its server-status page cannot be read, for 85 s"}
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.problems li').length === 2")
        assert await page.text("#health") == "1 problem now"
        trouble, planned = await page.text(".problems .trouble"), await page.text(".problems .planned")
        assert trouble.startswith("frodo held back")
        assert "Check the web server" in trouble
        assert planned.startswith("bilbo held back")
        assert "slow start, 40 % of its share" in planned
        assert "No action is needed" in planned


def logged(farm: FakeFarm, ago: float, kind: str, level: str, text: str, member: str = "", pool: str = "web") -> None:
    """Add an event to the log of ``farm`` that happened ``ago`` seconds ago."""
    farm.events.append(
        {"id": len(farm.events) + 1, "time": farm.time - ago, "kind": kind, "level": level, "text": text,
         "pool": pool, "member": member}
    )  # fmt: skip


async def test_problems_that_have_ended_in_the_last_hour_are_listed(browser: Browser) -> None:
    farm = FakeFarm({"web": ["bilbo", "frodo", "gandalf", "sam", "pippin"]})
    logged(farm, 6000, "state", "warning", "pool web: bilbo is silent (was usable): no report for 3.0 s", "bilbo")
    logged(farm, 5000, "state", "info", "pool web: bilbo is usable (was silent)", "bilbo")
    logged(farm, 4000, "state", "warning", "pool web: pippin is silent (was usable): no report for 3.0 s", "pippin")
    logged(farm, 3000, "state", "info", "pool web: pippin is usable (was silent)", "pippin")
    logged(farm, 2900, "state", "warning", "pool web: bilbo is alarm (was usable): alarm: disk full", "bilbo")
    logged(farm, 2700, "state", "info", "pool web: bilbo is usable (was alarm)", "bilbo")
    logged(farm, 2500, "guard", "warning", "pool web: sam is quarantined: it serves no requests", "sam")
    logged(farm, 2490, "guard", "info", "pool web: sam is no longer quarantined (duration: 10 s)", "sam")
    logged(farm, 2400, "override", "warning", "pool web: frodo drained by root (although it is the last one)", "frodo")
    logged(farm, 2300, "state", "warning", "pool web: gandalf is alarm (was usable): forced down by root", "gandalf")
    logged(farm, 2200, "state", "info", "pool web: gandalf is usable (was alarm)", "gandalf")
    logged(farm, 2100, "fail_open", "warning", "pool web: fails open: no member is usable; all members may be selected")
    logged(farm, 2000, "fail_open", "info", "pool web: no longer fails open")
    logged(farm, 1900, "reload", "error", "reload: the zone file is missing", pool="")
    logged(farm, 1800, "reload", "error", "reload: the zone file is missing", pool="")
    logged(farm, 900, "state", "warning", "pool web: frodo is silent (was usable): no report for 3.0 s", "frodo")
    logged(farm, 900, "state", "warning", "pool shop: other is silent (was usable): no report", "other", pool="shop")
    logged(farm, 890, "state", "info", "pool shop: other is usable (was silent)", "other", pool="shop")
    farm.silent.add("frodo")
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.problems .ended').length === 3")
        assert await page.text("#health") == "1 problem now, 5 ended in the last hour"
        assert [head.split(" since ")[0] for head in await page.texts(".problems .trouble .problem-head")] == [
            "frodo silent"
        ]
        await page.click("#problems button:not([hidden])")
        await page.until("document.querySelectorAll('.problems .ended').length === 5")
        ended = [" ".join(text.split()) for text in await page.texts(".problems .ended")]
        assert [re.sub(r"(\d+ \w+ )?\d\d:\d\d:\d\d", "T", text) for text in ended] == [
            "lbdns reload 2 times from T to T, for 100 s reload: the zone file is missing",
            "web fail open T to T, for 100 s no member is usable",
            "sam quarantined T to T, for 10 s it serves no requests",
            "bilbo alarm T to T, for 3 min disk full",
            "pippin silent T to T, for 17 min",
        ]
        farm.silent.clear()
        await server.send_event(kind="state", level="info", text="pool web: frodo is usable (was silent)", pool="web",
                                member="frodo")  # fmt: skip
        await server.send_status()
        await page.until("document.querySelectorAll('.problems .ended').length === 6")
        assert await page.text("#health") == "no problems now, 6 ended in the last hour"
        assert "none now" in await page.text("#problems")
        assert page.errors == []


async def test_the_tab_shows_a_lost_connection(browser: Browser) -> None:
    async with fake_server(demo_farm(), 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelector('#connection.live')")
        server.go_down()
        await page.until("document.title.startsWith('No connection')")
        assert await page.run(ICON) == "/icon-disconnected.svg"
        server.is_down = False
        await page.until("document.title.startsWith('best → ')")
        assert await page.run(ICON) == "/icon.svg"


async def test_many_problems_are_shortened(browser: Browser) -> None:
    farm = large_farm(1, 200)
    farm.silent.update(farm.pools["web"])
    farm.replaced |= {name: {"age_s": 20.0 + 10 * number} for number, name in enumerate(farm.pools["web"])}
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.problems li').length === 6")
        assert await page.text("#problems button") == "Show 194 more problems"
        await page.click("#problems button")
        await page.until("document.querySelectorAll('.problems li').length === 200")


async def test_an_outage_of_many_members_is_one_problem(browser: Browser) -> None:
    """Members that fell silent together are one problem; three members, or members with another cause, are not."""
    names = [f"web-{number}" for number in range(30)]
    farm = FakeFarm({"web": names})
    for name in names[:12]:
        logged(farm, 1000, "state", "warning", f"pool web: {name} is silent (was usable): no report for 3.0 s", name)
        logged(farm, 900, "state", "info", f"pool web: {name} is usable (was silent)", name)
    farm.silent.update(names[:9])
    farm.silent.update(names[20:23])
    farm.replaced |= {name: {"age_s": 200.0} for name in names[20:23]}
    farm.replaced |= {name: {"state": "alarm", "reason": "alarm: disk full"} for name in names[23:26]}
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.problems .ended').length === 1")
        assert await page.text("#health") == "7 problems now, 1 ended in the last hour"
        who = "[...document.querySelectorAll('.problems .trouble .who')].map(found => found.textContent)"
        assert await page.run(who) == ["9 members of web", *names[20:26]]
        first = await page.text(".problems .trouble")
        assert ", ".join(names[:8]) + " and 1 more" in first
        assert re.search(r"silent since .* for 14 s", first)
        ended = await page.text(".problems .ended")
        assert ended.startswith("12 members of web silent ")
        assert "for 100 s" in ended
        assert ", ".join(names[:8]) + " and 4 more" in ended


async def test_a_short_problem_has_no_duration_of_zero(browser: Browser) -> None:
    farm = demo_farm()
    logged(farm, 900.3, "state", "warning", "pool web: frodo is silent (was usable): no report for 3.0 s", "frodo")
    logged(farm, 900, "state", "info", "pool web: frodo is usable (was silent)", "frodo")
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until("document.querySelectorAll('.problems .ended').length === 1")
        assert (await page.text(".problems .ended")).endswith(", for less than 1 s")


async def test_members_drained_together_are_one_entry(browser: Browser) -> None:
    farm = FakeFarm({"web": [f"web-{number}" for number in range(30)]})
    drain = {"member": "", "pool": "", "factor": 1.0, "by": "root", "reason": "new kernel", "until": None}
    for number, name in enumerate(farm.pools["web"][:9]):
        order = drain | {"kind": "drain", "since": farm.time - 60 + number / 10}
        farm.replaced[name] = {"state": "drained", "reason": "drained by root: new kernel", "overrides": [order]}
    async with fake_server(farm, 60) as server, browser.page() as page:
        await page.open(f"{server.url}/")
        await page.until(f"!{HIDDEN}")
        (entry,) = await page.texts(".problems li")
        assert entry.startswith("9 members of web drained ")
        assert "run: lbdns undrain MEMBER" in entry
        assert (await page.text("#health")).startswith("no problems ")
        text = await page.text("#problems")
        assert text.startswith("Planned\nno problems now or in the last hour\n"), "a drain is no problem"
        assert "Problems" not in text
        figures = (
            "[...document.querySelectorAll('.pool .figures > div')].map(entry => [entry.innerText, entry.className])"
        )
        usable, planned, *_ = await page.run(figures)
        assert [" ".join(usable[0].split()), usable[1]] == ["usable 21 of 30", ""], "no colour of a warning"
        assert " ".join(planned[0].split()) == "planned 9"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_problems_fit_every_screen(browser: Browser, dark: bool) -> None:
    farm = troubled(large_farm(1, 30))
    farm.replaced["web-009"] = {"state": "alarm", "reason": "alarm: " + "a-reason-without-any-space" * 9}
    async with fake_server(farm, 60) as server, browser.page(dark=dark) as page:
        await page.open(f"{server.url}/")
        await page.until(f"!{HIDDEN}")
        for width in WIDTHS:
            await page.emulate(width, 900, dark=dark, phone=width < 820)
            assert await faint_texts(page) == []
            assert await read_until(lambda: overflow(page), lambda pixels: pixels <= 0) <= 0, width
