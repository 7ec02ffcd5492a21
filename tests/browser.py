"""A real browser for tests: Debian's Chromium without a window, driven by the Chrome DevTools Protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.end_to_end.process import Program, running
from tests.needs import program

START: Final = 90.0  # seconds; a busy machine takes 40 to start it
#: Seconds that a command or a condition is waited for: with a tenth of a core a page takes 30 until it shows a status
PATIENCE: Final = 90.0
_STEP: Final = 0.05  # seconds between looks at a condition
_TOLD: Final = 1500  # characters of a page that the message of a failure quotes
_LONGEST: Final = 2**26  # bytes of one message: a picture of a long page
#: Beside no window and no first-run questions: no sandbox, which root can't have, and nothing asked of the internet
_FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0", "--no-proxy-server",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-dev-shm-usage", "--force-color-profile=srgb", "--hide-scrollbars",
)  # fmt: skip
_KEYS: Final = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40}


class Browser:
    """One running browser; pages are opened in it one after another, or side by side."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        self._reader = asyncio.create_task(self._read())

    async def call(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """One command of the protocol, and what it returns."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_str(json.dumps(message))
        try:
            async with asyncio.timeout(PATIENCE):
                told = await answer
        except TimeoutError:
            raise AssertionError(f"the browser did not answer {method} within {PATIENCE:g} s") from None
        finally:
            self._answers.pop(number, None)
        assert "error" not in told, f"{method}: {told['error']}"
        result: dict[str, Any] = told["result"]
        return result

    @contextlib.asynccontextmanager
    async def page(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> AsyncIterator[Page]:
        """An empty page in a context of its own: no cookies, nothing stored."""
        context = (await self.call("Target.createBrowserContext"))["browserContextId"]
        try:
            target = await self.call("Target.createTarget", url="about:blank", browserContextId=context)
            attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
            page = self._pages[attached["sessionId"]] = Page(self, attached["sessionId"])
            for domain in ("Page", "Runtime", "Log", "Network"):
                await page.call(f"{domain}.enable")
            await page.call("Performance.enable", timeDomain="threadTicks")
            await page.emulate(width, height, dark=dark)
            yield page
        finally:
            await self.call("Target.disposeBrowserContext", browserContextId=context)

    async def close(self) -> None:
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        await self._socket.close()

    async def _read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            answer = self._answers.get(told.get("id", 0))
            if answer is not None and not answer.done():
                answer.set_result(told)
            elif (page := self._pages.get(told.get("sessionId", ""))) is not None:
                page.heard(told["method"], told["params"])


class Page:
    """One page: where it is, what it runs, what it looks like. ``complaints`` are errors of its scripts, requests that
    were refused by its content security policy, and whatever else the browser held against it."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.complaints: list[str] = []
        self.requested: list[str] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._browser.call(method, self._session, **params)

    def heard(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self._complain(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self._complain(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])

    def _complain(self, what: str) -> None:
        if what not in self.complaints:
            self.complaints.append(what)

    async def open(self, url: str) -> None:
        told = await self.call("Page.navigate", url=url)
        assert not told.get("errorText"), f"{url}: {told['errorText']}"
        await self.until("document.readyState === 'complete'")

    async def run(self, script: str) -> Any:
        """The value of an expression, of a promise what it comes to."""
        told = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        problem = told.get("exceptionDetails")
        assert not problem, f"{script}: {problem.get('exception', {}).get('description', problem)}"
        return told["result"].get("value")

    async def until(self, condition: str, seconds: float = PATIENCE) -> float:
        """Wait until an expression is true; how many seconds that took."""
        began = time.monotonic()
        while not await self.run(f"Boolean({condition})"):
            if time.monotonic() - began > seconds:
                raise AssertionError(f"not within {seconds:g} s: {condition}; {await self.looks()}")
            await asyncio.sleep(_STEP)
        return time.monotonic() - began

    async def until_shown(self, selector: str, condition: str) -> float:
        """Wait until an expression is true with an element in sight: the page may grow above it meanwhile."""
        scroll = f"document.querySelector({json.dumps(selector)}).scrollIntoView({{ behavior: 'instant' }})"
        return await self.until(f"({scroll}, {condition})")

    async def looks(self) -> str:
        """What the browser complained of and what can be read on the page, for the message of a failure."""
        try:
            read = await self.run("document.body?.innerText ?? ''")
        except AssertionError as error:
            read = str(error)
        words = " ".join(read.split())
        return f"complaints: {self.complaints}; the page shows: {words[:_TOLD]}{' ...' if len(words) > _TOLD else ''}"

    async def text(self, selector: str) -> str:
        """What an element says, as it is shown."""
        found = await self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")
        assert isinstance(found, str), f"there is no {selector}"
        return found

    async def texts(self, selector: str) -> list[str]:
        found: list[str] = await self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(found => found.innerText)"
        )
        return found

    async def click(self, selector: str) -> None:
        """As a mouse does: at the middle of an element, which has to be where it can be seen."""
        where = await self.run(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)}); if (!found) return null;"
            "found.scrollIntoView({ block: 'center', behavior: 'instant' }); const box = found.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        assert where, f"there is no {selector}"
        await self.point(*where)
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=where[0], y=where[1], button="left", clickCount=1)

    async def point(self, x: float, y: float) -> None:
        """Move the pointer there."""
        await self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    async def press(self, key: str, *, shift: bool = False) -> None:
        """One key, by the name that scripts know it by."""
        words: dict[str, Any] = {"key": key, "code": key, "modifiers": 8 if shift else 0}
        if key in _KEYS:
            words["windowsVirtualKeyCode"] = _KEYS[key]
        if len(key) == 1 or key == "Enter":
            words["text"] = "\r" if key == "Enter" else key
        await self.call("Input.dispatchKeyEvent", type="keyDown", **words)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **words)

    async def write(self, text: str) -> None:
        """Text into what has the focus."""
        await self.call("Input.insertText", text=text)

    async def emulate(
        self, width: int, height: int, *, dark: bool = False, phone: bool = False, scale: float = 1
    ) -> None:
        """A screen of this size in CSS pixels, by day or by night; a phone is touched."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )
        await self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        calm = {"name": "prefers-reduced-motion", "value": "reduce"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme, calm])

    async def picture(self, *, whole: bool = False) -> bytes:
        """What is seen, as a PNG file; ``whole``: the page to its end."""
        clip = {}
        if whole:
            size = (await self.call("Page.getLayoutMetrics"))["cssContentSize"]
            clip = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
        told = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **clip)
        return base64.b64decode(told["data"])

    async def figures(self) -> dict[str, float]:
        """What the browser measures of itself, such as ScriptDuration and LayoutDuration in seconds of CPU time."""
        return {one["name"]: one["value"] for one in (await self.call("Performance.getMetrics"))["metrics"]}


@contextlib.asynccontextmanager
async def browsing(folder: Path) -> AsyncIterator[Browser]:
    """A browser whose files are in ``folder``, for the length of a with block. Nothing of it is left behind."""
    command = (program("chromium"), *_FLAGS, f"--user-data-dir={folder}", "about:blank")
    with running(*command, env={"HOME": str(folder)}) as process:
        address = await _address(process, folder / "DevToolsActivePort")
        async with aiohttp.ClientSession(trust_env=False) as session:
            browser = Browser(await session.ws_connect(address, max_msg_size=_LONGEST, heartbeat=None))
            try:
                yield browser
            finally:
                await browser.close()


async def _address(process: Program, port_file: Path) -> str:
    """Where the browser listens, from the file in which it says so."""
    began = time.monotonic()
    while time.monotonic() - began < START and process.running:
        with contextlib.suppress(OSError, ValueError):
            port, path = _read(port_file).split()
            return f"ws://127.0.0.1:{int(port)}{path}"
        await asyncio.sleep(_STEP)
    raise AssertionError(
        f"Chromium did not start (it {'runs' if process.running else 'ended'}):\n{process.errors[-2000:]}"
    )


def _read(file: Path) -> str:
    return file.read_text()
