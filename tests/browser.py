"""A real browser for tests: headless Chromium, driven through the Chrome DevTools Protocol."""

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

START: Final = 90.0  # seconds to wait for the browser to start; on a busy machine it takes 40
#: Seconds to wait for a command or a condition; with a tenth of a core a page needs 30 to show the first status
PATIENCE: Final = 90.0
_POLL_INTERVAL: Final = 0.05  # seconds between two checks of a condition
_QUOTED: Final = 1500  # characters of the page that an error message quotes
_MAX_MESSAGE: Final = 2**26  # bytes: room for a screenshot of a long page
#: No window, no first-run dialogs, no internet traffic, and no sandbox, because it doesn't work for root
_FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0", "--no-proxy-server",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-dev-shm-usage", "--force-color-profile=srgb", "--hide-scrollbars",
)  # fmt: skip
_KEYS: Final = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40}


class Browser:
    """A running browser in which tests open pages."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, BrowserPage] = {}
        self._reader = asyncio.create_task(self._read())

    async def call(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """Send a DevTools command and return its result. Raises AssertionError on an error or timeout."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_str(json.dumps(message))
        try:
            async with asyncio.timeout(PATIENCE):
                response = await answer
        except TimeoutError:
            raise AssertionError(f"the browser did not answer {method} within {PATIENCE:g} s") from None
        finally:
            self._answers.pop(number, None)
        assert "error" not in response, f"{method}: {response['error']}"
        result: dict[str, Any] = response["result"]
        return result

    @contextlib.asynccontextmanager
    async def page(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> AsyncIterator[BrowserPage]:
        """Open an empty page in a separate browser context, without cookies or stored data."""
        context = (await self.call("Target.createBrowserContext"))["browserContextId"]
        try:
            target = await self.call("Target.createTarget", url="about:blank", browserContextId=context)
            attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
            page = self._pages[attached["sessionId"]] = BrowserPage(self, attached["sessionId"])
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
            content = json.loads(message.data)
            answer = self._answers.get(content.get("id", 0))
            if answer is not None and not answer.done():
                answer.set_result(content)
            elif (page := self._pages.get(content.get("sessionId", ""))) is not None:
                page.handle_event(content["method"], content["params"])


class BrowserPage:
    """A page in the browser.

    ``errors`` contains the errors that the browser reports: exceptions in scripts, requests blocked by the content
    security policy, and failed requests. ``requested`` contains the URLs of all requests.
    """

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.errors: list[str] = []
        self.requested: list[str] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._browser.call(method, self._session, **params)

    def handle_event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self._add_error(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self._add_error(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])

    def _add_error(self, text: str) -> None:
        if text not in self.errors:
            self.errors.append(text)

    async def open(self, url: str) -> None:
        result = await self.call("Page.navigate", url=url)
        assert not result.get("errorText"), f"{url}: {result['errorText']}"
        await self.until("document.readyState === 'complete'")

    async def run(self, script: str) -> Any:
        """Return the value of an expression; promises are awaited. Raises AssertionError if the script fails."""
        result = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        exception = result.get("exceptionDetails")
        assert not exception, f"{script}: {exception.get('exception', {}).get('description', exception)}"
        return result["result"].get("value")

    async def until(self, condition: str, seconds: float = PATIENCE) -> float:
        """Wait until an expression is true, and return the elapsed seconds."""
        start = time.monotonic()
        while not await self._is_true(condition):
            if time.monotonic() - start > seconds:
                raise AssertionError(f"not true within {seconds:g} s: {condition}; {await self.description()}")
            await asyncio.sleep(_POLL_INTERVAL)
        return time.monotonic() - start

    async def _is_true(self, condition: str) -> bool:
        """Return whether an expression is true. While the page loads anew, no expression is."""
        try:
            return bool(await self.run(f"Boolean({condition})"))
        except AssertionError as error:
            if "navigated" in str(error) or "context" in str(error):
                return False
            raise

    async def until_shown(self, selector: str, condition: str) -> float:
        """Scroll to an element and wait until an expression is true; repeat if content above the element grows."""
        scroll = f"document.querySelector({json.dumps(selector)}).scrollIntoView({{ behavior: 'instant' }})"
        return await self.until(f"({scroll}, {condition})")

    async def description(self) -> str:
        """Return the errors and the visible text of the page, for use in an error message."""
        try:
            shown = await self.run("document.body?.innerText ?? ''")
        except AssertionError as error:
            shown = str(error)
        text = " ".join(shown.split())
        return f"errors: {self.errors}; the page shows: {text[:_QUOTED]}{' ...' if len(text) > _QUOTED else ''}"

    async def text(self, selector: str) -> str:
        """Return the rendered text of an element."""
        found = await self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")
        assert isinstance(found, str), f"no element matches {selector}"
        return found

    async def texts(self, selector: str) -> list[str]:
        found: list[str] = await self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(found => found.innerText)"
        )
        return found

    async def click(self, selector: str) -> None:
        """Click the centre of an element with the mouse, after scrolling it into view.

        If the element moves before the mouse button is released, the click misses it and is repeated.
        """
        start = time.monotonic()
        while not await self._click_reaches(selector):
            assert time.monotonic() - start < PATIENCE, f"no click reaches {selector}; {await self.description()}"
            await asyncio.sleep(_POLL_INTERVAL)

    async def _click_reaches(self, selector: str) -> bool:
        """Click where the element is, and return whether the element received the click."""
        position = await self.run(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)}); if (!found) return null;"
            "window.wasClicked = false; found.addEventListener('click', () => { window.wasClicked = true; }, "
            "{ once: true, capture: true });"
            "found.scrollIntoView({ block: 'center', behavior: 'instant' }); const box = found.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        assert position, f"no element matches {selector}"
        await self.point(*position)
        for kind in ("mousePressed", "mouseReleased"):
            await self.call(
                "Input.dispatchMouseEvent", type=kind, x=position[0], y=position[1], button="left", clickCount=1
            )
        return await self._is_true("window.wasClicked !== false")  # undefined: the click has opened another page

    async def point(self, x: float, y: float) -> None:
        """Move the pointer to a position in CSS pixels."""
        await self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    async def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key, given by its name in KeyboardEvent.key."""
        parameters: dict[str, Any] = {"key": key, "code": key, "modifiers": 8 if shift else 0}
        if key in _KEYS:
            parameters["windowsVirtualKeyCode"] = _KEYS[key]
        if len(key) == 1 or key == "Enter":
            parameters["text"] = "\r" if key == "Enter" else key
        await self.call("Input.dispatchKeyEvent", type="keyDown", **parameters)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **parameters)

    async def write(self, text: str) -> None:
        """Type text into the focused element."""
        await self.call("Input.insertText", text=text)

    async def emulate(
        self, width: int, height: int, *, dark: bool = False, phone: bool = False, scale: float = 1
    ) -> None:
        """Emulate a screen of this size in CSS pixels; ``dark`` selects a dark theme, and ``phone`` a touch screen."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )
        await self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        motion = {"name": "prefers-reduced-motion", "value": "reduce"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme, motion])

    async def screenshot(self, *, whole: bool = False) -> bytes:
        """Return a PNG image of the visible part of the page or, with ``whole``, of the whole page."""
        clip = {}
        if whole:
            size = (await self.call("Page.getLayoutMetrics"))["cssContentSize"]
            clip = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
        result = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **clip)
        return base64.b64decode(result["data"])

    async def performance_metrics(self) -> dict[str, float]:
        """Return the browser's performance metrics, such as ScriptDuration and LayoutDuration (seconds of CPU time)."""
        metrics = (await self.call("Performance.getMetrics"))["metrics"]
        return {metric["name"]: metric["value"] for metric in metrics}


@contextlib.asynccontextmanager
async def browsing(folder: Path) -> AsyncIterator[Browser]:
    """Start a browser that keeps its files in ``folder``, and stop the browser at the end of the with block."""
    command = (program("chromium"), *_FLAGS, f"--user-data-dir={folder}", "about:blank")
    with running(*command, env={"HOME": str(folder)}) as process:
        address = await _address(process, folder / "DevToolsActivePort")
        async with aiohttp.ClientSession(trust_env=False) as session:
            browser = Browser(await session.ws_connect(address, max_msg_size=_MAX_MESSAGE, heartbeat=None))
            try:
                yield browser
            finally:
                await browser.close()


async def _address(process: Program, port_file: Path) -> str:
    """Return the address of the browser's DevTools socket, which the browser writes to ``port_file``."""
    start = time.monotonic()
    while time.monotonic() - start < START and process.running:
        with contextlib.suppress(OSError, ValueError):
            port, path = _read(port_file).split()
            return f"ws://127.0.0.1:{int(port)}{path}"
        await asyncio.sleep(_POLL_INTERVAL)
    raise AssertionError(
        f"Chromium did not start (the process {'runs' if process.running else 'has ended'}):\n{process.errors[-2000:]}"
    )


def _read(file: Path) -> str:
    return file.read_text()
