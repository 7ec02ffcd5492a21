"""Running a long-lived program: start it, reload it on SIGHUP, stop it on SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from typing import Protocol

from lbdns.errors import LbdnsError
from lbdns.events import Events

log = logging.getLogger("lbdns")


class Program(Protocol):
    events: Events

    async def start(self) -> None:
        """Open everything. Raises LbdnsError, and then holds nothing."""

    async def reload(self) -> None:
        """Go on with what the configuration says now. Raises LbdnsError, and then everything is as before."""

    async def stop(self) -> None:
        """Close everything."""


async def run(program: Program, over: asyncio.Event | None = None) -> None:
    """Run until SIGTERM or SIGINT, or until ``over`` is set; SIGHUP reloads, one reload after another.

    Raises LbdnsError if it can't start.
    """
    loop = asyncio.get_running_loop()
    stop = over or asyncio.Event()
    reload_now = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, reload_now.set)
    stopping = loop.create_task(stop.wait())
    starting = loop.create_task(program.start())
    await asyncio.wait((stopping, starting), return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        try:
            starting.result()
        except BaseException:
            stopping.cancel()
            raise
        reloading = loop.create_task(_reload_when_told(program, reload_now))
        await stopping
        await _end(reloading)
    else:
        await _end(starting)
    await program.stop()
    log.info("stopped")


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def reload(program: Program) -> None:
    """Reload and log what comes of it. Raises LbdnsError, and then everything is as before."""
    try:
        await program.reload()
    except LbdnsError as error:
        what = f"reload: the old configuration stays: {error}"
        program.events.tell("reload", what, level=logging.ERROR, logger=log.name)
        raise
    except Exception:
        log.exception("reload: failed")
        what = "reload: failed, the old configuration stays; the log says more"
        program.events.tell("reload", what, level=logging.ERROR, logger=log.name)
        raise
    program.events.tell("reload", "reload: done", logger=log.name)


async def _reload_when_told(program: Program, told: asyncio.Event) -> None:
    while True:
        await told.wait()
        told.clear()
        with contextlib.suppress(Exception):  # logged
            await reload(program)
