"""Recording: once a second, what a program knows goes to its history."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lbdns.config import Config
from lbdns.config.history import FILE_NAME
from lbdns.liveness import assess

if TYPE_CHECKING:
    from lbdns.farm import Pool
    from lbdns.history.history import History
    from lbdns.liveness import State
    from lbdns_collector.web.source import StatusSource

PERIOD: Final = 1.0  # s between two samples


class Recording:
    """Has the history of one program written, as its configuration says."""

    def __init__(self, source: StatusSource) -> None:
        self._source = source
        self._history: History | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def history(self) -> History | None:
        """None while nothing is recorded."""
        return self._history if self._history and self._source.farm.config.history.on else None

    async def use(self, config: Config) -> None:
        """Record as ``config`` says from now on. Never raises: what can't be recorded is told as an event."""
        path = config.server.state_dir / FILE_NAME
        if self._history is None:
            if not config.history.on:
                return
            self._history = await asyncio.to_thread(_open, path, config, self._source)
            await self._history.start()
            for event in self._source.events.newest():
                self._history.tell(event)  # what happened while the program started
        else:
            await self._history.reconfigure(config.history, path)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Write what there is, and end."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        if self._history is not None:
            await self._history.stop()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            # On time if possible; after a pause of the whole machine, not many at once
            due = max(due + PERIOD, loop.time())
            await asyncio.sleep(due - loop.time())
            if history := self.history:
                self._take(history)

    def _take(self, history: History) -> None:
        from lbdns.history.sample import take_sample

        source, now = self._source, time.monotonic()
        farm, types_and_rcodes = source.farm, source.asked()
        states = {pool.name: self._states(pool, now) for pool in farm.pools}
        answers = {pool.name: source.answers(pool.name) for pool in farm.pools}
        history.record(take_sample(source.snapshot, farm, states, answers, *types_and_rcodes, time.time(), now))

    def _states(self, pool: Pool, now: float) -> tuple[State, ...]:
        steering = self._source.overrides.steering(pool.name)
        readings = [self._source.snapshot.readings.get(member.full_name) for member in pool.members]
        forced = [steering.of(member.full_name) for member in pool.members]
        stale_after = self._source.farm.config.collector.stale_after
        return assess(readings, forced, now, stale_after, pool.config.min_usable).states


def _open(path: Path, config: Config, source: StatusSource) -> History:
    # Here and in a thread: a database library takes some 20 ms to be read in, in which queries are answered
    from lbdns.history.history import History

    return History(path, config.history, source.events)
