"""Runs a long-lived program: starts it, reloads it on SIGHUP, and stops it on SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from typing import Protocol

from lbdns.events.event_log import EventLog
from lbdns.process.apply_configuration import PartlyAppliedError
from lbdns.process.background_tasks import end_task
from lbdns.process.garbage_collection import tune_collections
from lbdns_shared.errors import LbdnsError

log = logging.getLogger("lbdns")


class Program(Protocol):
    """A program that ``run`` starts, reloads and stops."""

    events: EventLog

    async def start(self) -> None:
        """Open everything that the program needs; ``run`` calls this method once, before any other method.

        On failure, ``start`` closes everything and raises LbdnsError.
        """

    async def reload(self) -> None:
        """Reread the configuration and apply it. The caller must await ``start`` first.

        Raises LbdnsError. After any exception except PartlyAppliedError, every part still uses the old configuration.
        """

    async def stop(self) -> None:
        """Close everything; ``run`` calls this method once, during or after ``start``, and then no other method."""


async def run(program: Program, over: asyncio.Event | None = None) -> None:
    """Run ``program`` until SIGTERM or SIGINT arrives, or until ``over`` is set.

    SIGHUP makes the program reload. Two reloads never overlap. Raises LbdnsError if the program cannot start.
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
        tune_collections()
        reloading = loop.create_task(_reload_on_signal(program, reload_now))
        await stopping
        await end_task(reloading)
    else:
        await end_task(starting)
    await program.stop()
    log.info("stopped")


async def reload(program: Program) -> None:
    """Reload ``program``, and log the result. Raises the same errors as ``Program.reload``."""
    try:
        await program.reload()
    except Exception as error:
        if isinstance(error, PartlyAppliedError):
            why = str(error)
        elif isinstance(error, LbdnsError):
            why = f"the old configuration stays in force: {error}"
        else:
            log.exception("reload: failed")
            why = "an unexpected error occurred; the old configuration stays in force. See the log for details"
        program.events.record("reload", f"reload: {why}", level=logging.ERROR, logger=log.name)
        raise
    program.events.record("reload", "reload: done", logger=log.name)


async def _reload_on_signal(program: Program, signalled: asyncio.Event) -> None:
    while True:
        await signalled.wait()
        signalled.clear()
        with contextlib.suppress(Exception):  # logged
            await reload(program)
