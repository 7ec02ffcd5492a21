"""Runs ``lbdns serve`` as a separate process, with a configuration in a temporary folder."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from lbdns_shared.endpoint import Endpoint, parse_endpoint
from lbdns_shared.report import Report, encode
from tests.answering.farms import HOBBIT
from tests.config.config_files import ZONE, pool_table
from tests.server.clients import PATIENCE, until

PLAIN: Final = """
[server]
listen = ["127.0.0.1:0"]
control = "control.sock"
state_dir = "state"
{server}
{tables}[collector]
listen = ["127.0.0.1:0"]
[web]
listen = "{web}"
allow = ["192.0.2.0/24"]
"""


def write_config(
    folder: Path,
    *,
    server: str = "",
    pool: str = "",
    members: tuple[str, ...] = ("bilbo", "frodo", "gandalf"),
    web: str = "off",
    zone: str = HOBBIT,
) -> Path:
    """Write a configuration and its zone, and return the path of the configuration."""
    (folder / "hobbit.zone").write_text(zone)
    path = folder / "lbdns.toml"
    path.write_text(PLAIN.format(server=server, tables=ZONE + pool_table(*members, more=pool), web=web))
    return path


class Serving:
    """A server process, with the lines that it has logged so far."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        self.process, self.folder = process, folder
        self.log: list[str] = []
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log.append(line.decode().rstrip("\n"))

    def logged(self, text: str) -> list[str]:
        return [line for line in self.log if text in line]

    async def waits_for(self, text: str, count: int = 1) -> str:
        """Wait for the ``count``-th log line that contains ``text``, and return it."""
        try:
            await until(lambda: len(self.logged(text)) >= count or self.process.returncode is not None)
        except AssertionError:
            raise AssertionError(f"not logged {count} times: {text}\n" + "\n".join(self.log)) from None
        assert len(self.logged(text)) >= count, "\n".join(self.log)
        return self.logged(text)[count - 1]

    def endpoint(self, text: str = "answering DNS on ", which: int = -1) -> Endpoint:
        """Return the address in a log line."""
        found = re.search(rf"{text}(?:http://)?([^/\s]+)", self.logged(text)[which])
        assert found
        return parse_endpoint(found[1], 0)

    def report(self, host: str, score_idle: float, seq: int, source: str, interval: float = 60.0) -> None:
        """Send a report as the agent of ``host`` would, from the host's address."""
        report = Report(host, boot=1, seq=seq, time=time.time(), interval=interval, metrics={"cpu_idle": score_idle})
        collector = self.endpoint("receiving reports on ")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((source, 0))
            sock.sendto(encode(report), (collector.host, collector.port))

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def stopped(self) -> int:
        """Wait for the process to end, and return its exit status."""
        status = await asyncio.wait_for(self.process.wait(), PATIENCE)
        await self._reader
        return status


@asynccontextmanager
async def serving(config: Path, *arguments: str, ready: bool = True, module: str = "lbdns") -> AsyncIterator[Serving]:
    """Run ``lbdns serve``, or another module with its arguments, and wait until it is ready."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, "serve", "-c", str(config), *arguments,
        stderr=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    running = Serving(process, config.parent)
    try:
        if ready:
            await running.waits_for("ready:")
        yield running
    finally:
        if process.returncode is None:
            process.kill()
        await running.stopped()
