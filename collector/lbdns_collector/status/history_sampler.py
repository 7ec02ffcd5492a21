"""The history sampler: records the state of the running program once per second."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lbdns.config import Config
from lbdns.config.recording_sections import FILE_NAME
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.liveness import pool_liveness
from lbdns.process.apply_configuration import PreparedChange
from lbdns.process.background_tasks import end_task

if TYPE_CHECKING:
    from lbdns.history.live_history import LiveHistory
    from lbdns_collector.status.status_source import StatusSource

PERIOD: Final = 1.0  # seconds between two samples


class HistorySampler:
    """A sampler that opens the configured history and records a sample every second."""

    def __init__(self, source: StatusSource) -> None:
        self._source = source
        self._history: LiveHistory | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def history(self) -> LiveHistory | None:
        """The history, or None while recording is off."""
        return self._history if self._history and self._source.members.farm.config.history.on else None

    async def start(self) -> None:
        """Start recording if the configuration enables it.

        The method never raises an exception; it logs failures and tries again.
        """
        await self._use(self._source.members.farm.config)

    async def prepare(self, new: CheckedConfiguration) -> PreparedChange:
        """Return a change that applies the recording settings in ``new``.

        The change takes effect when ``finish`` is called, which may wait for the disk. Never raises.
        """
        return PreparedChange("history", finish=lambda: self._use(new.farm.config))

    async def _use(self, config: Config) -> None:
        path = config.server.state_dir / FILE_NAME
        if self._history is None:
            if not config.history.on:
                return
            self._history = await asyncio.to_thread(_open, path, config, self._source)
            await self._history.start()
            for event in self._source.program.events.newest():
                self._history.record_event(event)  # events from the start of the program
        else:
            await self._history.reconfigure(config.history, path)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop sampling, and write the samples that are still in memory to the disk."""
        await end_task(self._task)
        self._task = None
        if self._history is not None:
            await self._history.stop()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            # On schedule if possible; after the whole machine has paused, the missed samples are skipped
            due = max(due + PERIOD, loop.time())
            await asyncio.sleep(due - loop.time())
            if history := self.history:
                self._record_sample(history)

    def _record_sample(self, history: LiveHistory) -> None:
        from lbdns.history.history_sample import take_history_sample

        members, selection, now = self._source.members, self._source.selection, time.monotonic()
        farm, snapshot, overrides = members.farm, members.snapshot, members.overrides
        if not history.needs_sample(sum(len(pool.members) for pool in farm.pools), now):
            return
        stale_after = farm.config.collector.stale_after
        states = {p.name: pool_liveness(p, snapshot, overrides, now, stale_after).states for p in farm.pools}
        answers = {pool.name: selection.answers(pool.name) for pool in farm.pools}
        types_and_rcodes = self._source.counters.type_and_rcode_counts()
        history.record_sample(take_history_sample(snapshot, farm, states, answers, *types_and_rcodes, time.time(), now))


def _open(path: Path, config: Config, source: StatusSource) -> LiveHistory:
    # Imported here, in a thread: loading the database library takes some 20 ms, and queries must not wait
    from lbdns.history.live_history import LiveHistory

    return LiveHistory(path, config.history, source.program.events)
