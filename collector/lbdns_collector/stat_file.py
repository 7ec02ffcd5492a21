"""The stat file: the table of members as colon-separated lines, rewritten whole, for scripts that read files."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import tempfile
import time
from pathlib import Path
from typing import Final, Protocol

from lbdns.farm import Farm
from lbdns.liveness import assess, state_of
from lbdns.metrics import CATALOGUE
from lbdns.overrides import Overrides
from lbdns.snapshot import Reading, Snapshot

log = logging.getLogger("lbdns.collector")

PERIOD: Final = 1.0  # seconds: at most one rewriting in this time
COLUMNS: Final = ("member", "pool", "state", "score", "age", *CATALOGUE)


class StatSource(Protocol):
    """What the stat file is made from."""

    @property
    def farm(self) -> Farm: ...

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def overrides(self) -> Overrides: ...


def render(farm: Farm, snapshot: Snapshot, overrides: Overrides, now: float) -> str:
    """The file's text at ``now`` (monotonic seconds): a header naming the columns, then a line a member.

    Ages are in seconds, metrics in the units of the catalogue; what isn't known is an empty field.
    """
    lines = ["# " + ":".join(COLUMNS)]
    for pool in farm.pools:
        readings = [snapshot.readings.get(member.full_name) for member in pool.members]
        steering = overrides.steering(pool.name)
        forced = [steering.of(member.full_name) for member in pool.members]
        stale_after = farm.config.collector.stale_after
        liveness = assess(readings, forced, now, stale_after, pool.config.min_usable)
        for member, reading, state in zip(pool.members, readings, liveness.states, strict=True):
            lines.append(":".join((member.name, _plain(pool.name), state, *_fields(reading, now))))
    return "\n".join(lines) + "\n"


def _fields(reading: Reading | None, now: float) -> list[str]:
    if reading is None:
        return [""] * (len(COLUMNS) - 3)
    metrics = [_number(reading.metrics[name]) if name in reading.metrics else "" for name in CATALOGUE]
    return [str(reading.score), _number(round(now - reading.received, 1)), *metrics]


def _number(value: float) -> str:
    """Without an exponent where a person would write none."""
    if abs(value) >= 1e15:
        return repr(value)
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _plain(text: str) -> str:
    """A pool's name may be any text; here it must not look like two columns or two lines."""
    return "".join("_" if char == ":" or not char.isprintable() else char for char in text)


def replace_file(path: Path, text: str) -> None:
    """Write ``text`` beside ``path`` and move it there: a reader sees the old file or the new one, whole.

    The mode is 0644. Nothing is synced: after a power failure the next second writes it anew. Raises OSError.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(text)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


class StatFile:
    """Keeps the file that ``[collector] stat_file`` names up to date; a reload may name another, or none.

    Rendering and writing happen in a thread: a slow disk or a large farm holds up no report and no query.
    """

    def __init__(self, source: StatSource) -> None:
        self._source = source
        self._task: asyncio.Task[None] | None = None
        self._failed = ""
        self._written: object = None
        self.failures = 0  # rewritings that failed so far

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            path = self._source.farm.config.collector.stat_file
            if path is not None:
                await self.update(path)
            await asyncio.sleep(PERIOD)

    async def update(self, path: Path) -> None:
        """Rewrite the file now, unless everybody in it is silent and stays so."""
        farm, snapshot = self._source.farm, self._source.snapshot
        overrides = self._source.overrides
        now = time.monotonic()
        stale_after = farm.config.collector.stale_after
        resting = all(state_of(reading, now, stale_after) == "silent" for reading in snapshot.readings.values())
        # The farm by its identity: it never changes, a reload makes another
        said = (path, id(farm), snapshot.version, overrides, resting)
        if resting and said == self._written:
            return
        try:
            await asyncio.to_thread(lambda: replace_file(path, render(farm, snapshot, overrides, now)))
        except OSError as error:
            self._fail(f"stat_file: {path}: can't be written: {error.strerror}; it is tried again every second")
            return
        if self._failed:
            log.info("stat_file: %s: is written again", path)
        self._failed, self._written = "", said

    def _fail(self, what: str) -> None:
        self.failures += 1
        if what != self._failed:
            log.error(what)
        self._failed, self._written = what, None
