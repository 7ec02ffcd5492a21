"""Adopts the joined members of the collector that this server follows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from lbdns.model.farm import Farm
from lbdns.model.joined_members import JoinedMembers
from lbdns.process.background_tasks import end_task
from lbdns_collector.joining.joined_file import JoinedFile
from lbdns_shared.errors import LbdnsError

log = logging.getLogger("lbdns.follow")

RETRY: Final = 5.0  # s after a change that could not be put into force


class FollowedMembers:
    """Applies the collector's newest list of joined members, one change at a time.

    The members are kept in a file, so that this server knows them after a restart even if the collector is unreachable.
    """

    def __init__(self, farm: Callable[[], Farm], apply: Callable[[JoinedMembers], Awaitable[None]]) -> None:
        """``farm`` returns the current farm; ``apply`` applies a new list of joined members, and may raise
        LbdnsError."""
        self._farm, self._apply = farm, apply
        self._newest: JoinedMembers | None = None
        self._wake = asyncio.Event()
        self._file = JoinedFile()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        await end_task(self._task)
        self._task = None

    def receive(self, joined: JoinedMembers) -> None:
        """Record the joined members that the collector has sent for all its pools."""
        if joined != self._newest:
            self._newest = joined
            self._wake.set()

    def apply_again(self) -> None:
        """Apply the newest list again, since a reload may have changed which pools hosts may join."""
        if self._newest is not None:
            self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            pools = {pool.name for pool in self._farm().pools if pool.config.join}
            assert self._newest is not None, "this task is woken only after members have arrived"
            joined = JoinedMembers(tuple(member for member in self._newest.items if member.pool in pools))
            try:
                await self._apply(joined)
            except Exception as error:
                is_known = isinstance(error, LbdnsError)
                log.error(
                    "the collector's list of joined members cannot be applied yet: %s", error, exc_info=not is_known
                )
                self._wake.set()
                await asyncio.sleep(RETRY)
                continue
            await self._file.save(self._farm().config, joined)
