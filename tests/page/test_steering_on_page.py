"""Tests of steering from the live page, on a real server: the button, the confirmation, the token, and the audit."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from lbdns.client.control_client import send_command
from tests.browser import BrowserPage, browsing
from tests.end_to_end.harness import Site, new_site, serving
from tests.needs import needs
from tests.page.page_checks import faint_texts, overflow

MEMBERS = {"bilbo": ["127.0.0.16"], "frodo": ["127.0.0.17"]}
OPEN = "document.getElementById('steer').open"
MESSAGE = "document.querySelector('.steer-message').textContent"
CONFIRM = "document.querySelector('#steer [type=submit]')"
STATE = "document.querySelector('.why-state').textContent"


def steering_site(folder: Path, **web: str) -> Site:
    for name in ("browser", "state"):
        (folder / name).mkdir()
    token = folder / "steer.token"
    token.write_text("sesame\n")
    token.chmod(0o600)
    site = new_site(folder, MEMBERS)
    site.write(**web)
    return site


def last_override(site: Site) -> str:
    events: list[dict[str, Any]] = json.loads(site.page("/api/v1/log?kind=override"))["events"]
    return str(events[-1]["text"]) if events else ""


async def open_dialog(page: BrowserPage, site: Site) -> None:
    await page.open(f"http://127.0.0.1:{site.http_port}/")
    await page.until("document.querySelectorAll('.members .opener').length === 2")
    await page.run("document.querySelector('.opener').click()")
    await page.until("document.body.classList.contains('steerable')")
    await page.click(".steer-button")
    await page.until(OPEN)


@needs(programs=("chromium",))
async def test_a_member_is_drained_and_undrained_from_the_page(tmp_path: Path) -> None:
    site = steering_site(tmp_path, web='steer = true\nsteer_token_file = "steer.token"')
    with serving(site):
        async with browsing(tmp_path / "browser") as browser, browser.page(width=390) as page:
            await open_dialog(page, site)
            assert await page.run("document.querySelector('#steer h2').textContent") == "Steer bilbo in pool web"
            assert await overflow(page) == 0
            assert await faint_texts(page) == []
            # Without a token, the dialog asks for one, and the browser does not prompt
            await page.run(f"{CONFIRM}.click()")
            await page.until(f"{MESSAGE}.startsWith('Steering requires a token')")
            assert await page.run("document.activeElement.type") == "password"
            await page.write("sesame")
            await page.run("Object.assign(document.querySelector('#steer input[type=text]'), { value: 'new kernel' })")
            await page.run(f"{CONFIRM}.click()")
            await page.until(f"!{OPEN}")
            await page.until(f"{STATE}.startsWith('drained')")
            assert last_override(site) == "pool web: bilbo drained by steer token 1 (web, 127.0.0.1): new kernel"
            # The end of the drain, with the token that the page remembers
            await page.click(".steer-button")
            await page.run(
                "const choice = document.querySelector('#steer select'); choice.value = 'undrain';"
                "choice.dispatchEvent(new Event('input', { bubbles: true }))"
            )
            await page.run(f"{CONFIRM}.click()")
            await page.until(f"!{OPEN}")
            await page.until(f"!{STATE}.startsWith('drained')")
            assert "no longer drained: steer token 1 (web, 127.0.0.1) ended the drain" in last_override(site)


@needs(programs=("chromium",))
async def test_the_last_member_needs_a_second_confirmation(tmp_path: Path) -> None:
    site = steering_site(tmp_path, web='steer = true\nsteer_token_file = "steer.token"')
    with serving(site):
        await asyncio.to_thread(send_command, site.folder / "control.sock", "drain", member="frodo")
        async with browsing(tmp_path / "browser") as browser, browser.page() as page:
            await open_dialog(page, site)
            await page.run("document.querySelector('#steer input[type=password]').value = 'sesame'")
            await page.run(f"{CONFIRM}.click()")
            await page.until(f"{MESSAGE}.startsWith('bilbo is the last')")
            assert await page.run(f"{CONFIRM}.textContent") == "Proceed anyway"
            assert "add force=true" not in await page.run(MESSAGE)
            await page.run(f"{CONFIRM}.click()")
            await page.until(f"!{OPEN}")
            await page.until(f"{STATE}.startsWith('drained')")


@needs(programs=("chromium",))
async def test_the_dialog_shows_the_notes_of_the_server(tmp_path: Path) -> None:
    site = steering_site(tmp_path, web='steer = true\nsteer_token_file = "steer.token"')
    with serving(site):
        for member in ("bilbo", "frodo"):
            await asyncio.to_thread(send_command, site.folder / "control.sock", "force", member=member, to="up")
        async with browsing(tmp_path / "browser") as browser, browser.page() as page:
            await open_dialog(page, site)
            await page.run("document.querySelector('#steer input[type=password]').value = 'sesame'")
            await page.run(f"{CONFIRM}.click()")
            await page.until(f"{MESSAGE}.startsWith('Done.')")
            assert await page.run(MESSAGE) == (
                "Done. Note: bilbo.hobbit is drained; a drain takes precedence over a forced state."
            )
            assert await page.run(f"{CONFIRM}.checkVisibility()") is False, (
                "the command must not be repeated by mistake"
            )
            await page.run("document.activeElement.click()")
            await page.until(f"!{OPEN}")
            await page.click(".steer-button")
            assert await page.run(f"{CONFIRM}.checkVisibility()") is True
            assert await page.run(MESSAGE) == ""


@needs(programs=("chromium",))
async def test_a_late_response_does_not_change_the_dialog_for_another_member(tmp_path: Path) -> None:
    site = steering_site(tmp_path, web='steer = true\nsteer_token_file = "steer.token"')
    with serving(site):
        async with browsing(tmp_path / "browser") as browser, browser.page() as page:
            await open_dialog(page, site)
            late = "const sent = window.fetch; window.fetch = () => new Promise(answer => { window.answer = answer; })"
            await page.run(f"(() => {{ {late}; window.restore = () => {{ window.fetch = sent; }}; }})()")
            await page.run(f"{CONFIRM}.click()")
            await page.until("window.answer")
            assert await page.run(f"{CONFIRM}.disabled") is True
            await page.run("window.restore(); document.getElementById('steer').close()")
            await page.click(".steer-button")
            assert await page.run(f"{CONFIRM}.disabled") is False
            refused = "{ status: 409, headers: { 'Content-Type': 'application/json' } }"
            await page.run(f'window.answer(new Response(\'{{"error": "the last"}}\', {refused}))')
            await asyncio.sleep(0.3)  # nothing may happen
            assert await page.run(MESSAGE) == ""
            assert await page.run(f"{CONFIRM}.textContent") == "Drain (bilbo)"


@needs(programs=("chromium",))
async def test_without_steering_there_is_no_button(tmp_path: Path) -> None:
    site = steering_site(tmp_path, web="")
    with serving(site):
        async with browsing(tmp_path / "browser") as browser, browser.page() as page:
            await page.open(f"http://127.0.0.1:{site.http_port}/")
            await page.until("document.querySelectorAll('.members .opener').length === 2")
            await page.run("document.querySelector('.opener').click()")
            await page.until("document.querySelector('.steer-button')")
            assert await page.run("document.querySelector('.steer-button').checkVisibility()") is False
