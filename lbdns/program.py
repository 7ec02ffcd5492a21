"""Running a long-lived program: start it, reload it on SIGHUP, stop it on SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from typing import Protocol

from lbdns.errors import LbdnsError

log = logging.getLogger("lbdns")


class Program(Protocol):
    async def start(self) -> None:
        """Open everything. Raises LbdnsError, and then holds nothing."""

    async def reload(self) -> None:
        """Go on with what the configuration says now. Raises LbdnsError, and then everything is as before."""

    async def stop(self) -> None:
        """Close everything."""


async def run(program: Program) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP reloads, one reload after another. Raises LbdnsError if it can't start."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    reload = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    await program.start()
    reloading = loop.create_task(_reload_when_told(program, reload))
    await stop.wait()
    reloading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reloading
    await program.stop()
    log.info("stopped")


async def _reload_when_told(program: Program, told: asyncio.Event) -> None:
    while True:
        await told.wait()
        told.clear()
        try:
            await program.reload()
        except LbdnsError as error:
            log.error("reload: the old configuration stays: %s", error)
        except Exception:
            log.exception("reload: failed, the old configuration stays")
        else:
            log.info("reload: done")
