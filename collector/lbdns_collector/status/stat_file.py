"""Writes the stat file, a text file for scripts with one line of colon-separated fields per member."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Final

from lbdns.model.farm import Farm
from lbdns.model.liveness import pool_liveness, state_of
from lbdns.model.overrides import Overrides
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.process.atomic_file import replace_file
from lbdns.process.background_tasks import end_task
from lbdns_collector.status.status_source import MemberSource
from lbdns_shared.metric_catalogue import CATALOGUE

log = logging.getLogger("lbdns.collector")

PERIOD: Final = 1.0  # seconds between two versions of the file
COLUMNS: Final = ("member", "pool", "state", "score", "age", *CATALOGUE)


def render(farm: Farm, snapshot: Snapshot, overrides: Overrides, now: float) -> str:
    """Return the stat file's text at ``now`` (monotonic seconds): a line of column names, then one line per member.

    Ages are in seconds, and metrics are in the units of the metric catalogue. Unknown values are empty fields.
    """
    lines = ["# " + ":".join(COLUMNS)]
    for pool in farm.pools:
        readings = [snapshot.readings.get(member.full_name) for member in pool.members]
        liveness = pool_liveness(pool, snapshot, overrides, now, farm.config.collector.stale_after)
        for member, reading, state in zip(pool.members, readings, liveness.states, strict=True):
            lines.append(":".join((member.name, _plain(pool.name), state, *_fields(reading, now))))
    return "\n".join(lines) + "\n"


def _fields(reading: Reading | None, now: float) -> list[str]:
    if reading is None:
        return [""] * (len(COLUMNS) - 3)
    metrics = [_number(reading.metrics[name]) if name in reading.metrics else "" for name in CATALOGUE]
    return ["" if reading.score is None else str(reading.score), _number(round(now - reading.received, 1)), *metrics]


def _number(value: float) -> str:
    """Return a number as text: in decimal notation, or with an exponent if the number is at least 1e15."""
    if abs(value) >= 1e15:
        return repr(value)
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _plain(text: str) -> str:
    """Return the name of a pool, with each colon and each unprintable character replaced by ``_``."""
    return "".join("_" if char == ":" or not char.isprintable() else char for char in text)


class StatFile:
    """A writer that keeps the stat file up to date. After a reload, it uses the new value of ``[collector] stat_file``.

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
