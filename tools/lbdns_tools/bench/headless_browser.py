"""A headless Chromium for benchmarks of the live page, controlled through the Chrome DevTools Protocol."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp

from lbdns_tools.bench.measured_processes import BenchmarkError, MeasuredProcess, need, running

START: Final = 60.0  # seconds until the browser listens
PATIENCE: Final = 120.0  # seconds that a command may take
MAX_MESSAGE: Final = 2**26  # bytes
_POLL_PERIOD: Final = 0.05  # seconds
#: No window, no first-run dialogs, no internet traffic, and no sandbox, which does not work for root
_FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0", "--no-proxy-server",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-dev-shm-usage",
)  # fmt: skip


class MeasuredPage:
    """The only page of a headless browser.

    ``errors`` contains the errors that the browser has reported: exceptions in scripts, failed requests, and requests
    that the content security policy blocks.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, process: MeasuredProcess) -> None:
        self._socket, self.process = socket, process
        self.errors: list[str] = []
        self._numbers = itertools.count(1)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a DevTools command and return its result. Raises BenchmarkError."""
        number = next(self._numbers)
        await self._socket.send_str(json.dumps({"id": number, "method": method, "params": params}))
        try:
            async with asyncio.timeout(PATIENCE):
                while (content := await self._socket.receive_json()).get("id") != number:
                    self._record_error(content)  # of an event; late responses contain none
        except (TimeoutError, TypeError) as error:  # TypeError: the browser has closed the connection
            raise BenchmarkError(f"the browser did not answer {method}: {error!r}") from None
        if "error" in content:
            raise BenchmarkError(f"{method}: {content['error']}")
        result: dict[str, Any] = content["result"]
        return result

    def _record_error(self, event: dict[str, Any]) -> None:
        text, params = "", event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            text = details.get("exception", {}).get("description") or details["text"]
        elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            text = f"{params['entry']['text']} {params['entry'].get('url', '')}".strip()
        if text and text not in self.errors:
            self.errors.append(text)

    async def run(self, script: str) -> Any:
        """Return the value of an expression; promises are awaited. Raises BenchmarkError if the script fails."""
        result = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if exception := result.get("exceptionDetails"):
            raise BenchmarkError(f"the page's script failed: {exception}")
        return result["result"].get("value")

    async def until(self, condition: str, seconds: float) -> None:
        """Wait until an expression is true. Raises BenchmarkError after ``seconds``."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not await self.run(f"Boolean({condition})"):
            if asyncio.get_running_loop().time() > deadline:
                raise BenchmarkError(f"the page did not reach this state within {seconds:g} s: {condition}")
            await asyncio.sleep(_POLL_PERIOD)

    async def script_seconds(self) -> float:
        """Return the CPU time that the page's scripts have used so far, in seconds."""
        metrics = (await self.call("Performance.getMetrics"))["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "ScriptDuration"))


@contextlib.asynccontextmanager
async def browsing(folder: Path, core: int | None, width: int, height: int) -> AsyncIterator[MeasuredPage]:
    """Run a browser with an empty page of ``width`` x ``height`` CSS pixels for the duration of a with statement.

    If ``core`` is None, the browser may run on any core.
    """
    profile = folder / "browser"
    command = [need("chromium", "chromium"), *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with running("chromium", ["env", f"HOME={folder}", *command], core, folder / "chromium.log") as process:
        port = await _port(process, profile / "DevToolsActivePort")
        async with aiohttp.ClientSession(trust_env=False) as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
                address = next(page["webSocketDebuggerUrl"] for page in await response.json() if page["type"] == "page")
            async with session.ws_connect(address, max_msg_size=MAX_MESSAGE) as socket:
                page = MeasuredPage(socket, process)
                for domain in ("Page", "Runtime", "Log"):
                    await page.call(f"{domain}.enable")
                await page.call("Performance.enable", timeDomain="threadTicks")
                size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
                await page.call("Emulation.setDeviceMetricsOverride", **size)
                yield page


async def _port(process: MeasuredProcess, port_file: Path) -> int:
    """Return the port of the DevTools socket, which the browser writes to ``port_file``."""
    deadline = asyncio.get_running_loop().time() + START
    while asyncio.get_running_loop().time() < deadline:
        process.require_alive()
        if port := _written_port(port_file):
            return port
        await asyncio.sleep(_POLL_PERIOD)
    raise BenchmarkError(f"chromium did not start within {START:g} s")


def _written_port(port_file: Path) -> int | None:
    """Return the port in ``port_file``, or None if the browser has not written the file completely."""
    try:
        port, _ = port_file.read_text().split()
        return int(port)
    except (OSError, ValueError):
        return None
