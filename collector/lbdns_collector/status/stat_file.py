"""Writes the stat file, a text file for scripts."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Final

from lbdns.model.liveness import state_of
from lbdns.process.atomic_file import replace_file
from lbdns.process.background_tasks import end_task
from lbdns_collector.status.stat_lines import RENDERERS
from lbdns_collector.status.status_source import MemberSource

log = logging.getLogger("lbdns.collector")

PERIOD: Final = 1.0  # seconds between two versions of the file


class StatFile:
    """A writer that keeps the stat file up to date. After a reload, it uses the new values of ``stat_file`` and
    ``stat_format`` in ``[collector]``.

    A thread renders and writes the file, so that a slow disk or a large farm does not delay reports or queries.
    """

    def __init__(self, source: MemberSource) -> None:
        self._source = source
        self._task: asyncio.Task[None] | None = None
        self._failed = ""
        self._written: object = None
        self.failures = 0  # failed attempts to write the file

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        await end_task(self._task)
        self._task = None

    async def _run(self) -> None:
        while True:
            path = self._source.farm.config.collector.stat_file
            if path is not None:
                await self.update(path)
            await asyncio.sleep(PERIOD)

    async def update(self, path: Path) -> None:
        """Rewrite the file now, unless all members are silent and nothing has changed since the last write."""
        farm, snapshot = self._source.farm, self._source.snapshot
        overrides = self._source.overrides
        now = time.monotonic()
        stale_after = farm.config.collector.stale_after
        resting = all(state_of(reading, now, stale_after) == "silent" for reading in snapshot.readings.values())
        # The farm is compared by identity: it is immutable, and a reload makes another one
        written = (path, id(farm), snapshot.version, overrides, resting)
        if resting and written == self._written:
            return
        render = RENDERERS[farm.config.collector.stat_format]
        try:
            await asyncio.to_thread(lambda: replace_file(path, render(farm, snapshot, overrides, now)))
        except OSError as error:
            self._fail(f"stat_file: {path}: cannot write the file: {error.strerror}; retrying every second")
            return
        if self._failed:
            log.info("stat_file: %s: the file can be written again", path)
        self._failed, self._written = "", written

    def _fail(self, what: str) -> None:
        self.failures += 1
        if what != self._failed:
            log.error(what)
        self._failed, self._written = what, None
