"""Membership: applies the joins and departures of hosts, several at a time, and saves the joined members to disk."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from lbdns.events.event_log import EventLog
from lbdns.model.farm import Farm, Pool
from lbdns.model.joined_members import JoinedMember, JoinedMembers
from lbdns.model.liveness import silent_at
from lbdns.model.snapshot import Reading
from lbdns.process.background_tasks import end_task
from lbdns.process.duty_cycle import DutyCycle
from lbdns.text.times import format_duration
from lbdns_collector.joining.joined_file import JoinedFile
from lbdns_collector.reports.collector import Collector
from lbdns_shared.errors import LbdnsError

log = logging.getLogger("lbdns.collector")

#: A change rebuilds the answers of all zones, so many joins at once must not take up the server's time
APPLYING: Final = DutyCycle(4.0, shortest=0.05, longest=10.0)
GATHERING: Final = 0.02  # s that the first of several joins waits for the others
RETRY: Final = 5.0  # s after a change that could not be applied
CHECKS: Final = 20  # of departures within ``leave_after``: a member leaves at most a twentieth of that time late
SHORTEST_CHECK, LONGEST_CHECK = 0.05, 5.0  # s between two checks
SHOWN: Final = 8  # members in one event

#: Replaces the joined members in force. Raises LbdnsError if a part of the program cannot use them.
Apply = Callable[[JoinedMembers], Awaitable[None]]


class Membership:
    """Watches a collector's join requests and its joined members.

    ``apply`` reconfigures the program. The caller must call ``start`` and, finally, ``stop``.
    """

    def __init__(self, collector: Collector, apply: Apply, events: EventLog) -> None:
        self._collector, self._apply, self._events = collector, apply, events
        self._file = JoinedFile()
        self._since: dict[JoinedMember, float] = {}  # when each member was first seen here, monotonic seconds
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def _joined(self) -> JoinedMembers:
        """The currently joined members."""
        return self._collector.joins.joined

    def start(self) -> None:
        """Start processing join requests. Call this method after dropping root privileges."""
        self._collector.on_join_requests = self._wake.set
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        await end_task(self._task)
        self._task = None

    async def _run(self) -> None:
        while True:
            try:
                pause = await self._step()
            except Exception:
                log.exception("membership: a change failed")
                pause = RETRY
            await asyncio.sleep(pause)
            try:
                async with asyncio.timeout(self._check_interval()):
                    await self._wake.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(GATHERING)

    async def _step(self) -> float:
        """Apply all pending changes, and return the number of seconds to pause."""
        self._wake.clear()
        began = time.monotonic()
        joins = list(self._collector.joins.requested)
        leaves = self._departures(began)
        after = self._joined.changed(put=joins, removed=[member for member, _ in leaves])
        if after != self._joined:
            try:
                await self._apply(after)
            except LbdnsError as error:
                log.error("%s; %d joins and %d departures are waiting", error, len(joins), len(leaves))
                self._wake.set()  # so that the change is tried again after the pause
                return RETRY
            self._record(joins, leaves)
        await self._file.save(self._collector.farm.config, self._joined)
        return APPLYING.pause_after(time.monotonic() - began)

    def _departures(self, now: float) -> list[tuple[JoinedMember, str]]:
        farm = self._collector.farm
        self._since = {member: self._since.get(member, now) for member in self._joined.items}
        pools = {pool.name: pool for pool in farm.pools}
        found: list[tuple[JoinedMember, str]] = []
        for name in dict.fromkeys(member.pool for member in self._joined.items):
            if pool := pools.get(name):
                found.extend(self._departures_of(pool, farm, now))
        return found

    def _departures_of(self, pool: Pool, farm: Farm, now: float) -> Iterable[tuple[JoinedMember, str]]:
        """Yield the members that leave ``pool``, each with the reason.

        If no member reports, silent members stay, because the network or the collector is more likely to have failed
        than all members at once.
        """
        assert pool.config.join, "only a pool with the key 'join' can have joined members"
        readings = {member.name: self._collector.table.reading(member.full_name) for member in pool.members}
        stale_after = farm.config.collector.stale_after
        some_report = any(_reports(reading, now, stale_after) for reading in readings.values())
        for member in self._joined.of_pool(pool.name):
            reading = readings.get(member.name)
            last = reading.received if reading else self._since[member]
            if now - last >= pool.config.join.leave_after and not _reports(reading, now, stale_after):
                if reading and reading.gone:
                    yield member, f"stopped {format_duration(now - last)} ago"
                elif some_report:
                    yield member, f"silent for {format_duration(now - last)}"

    def _check_interval(self) -> float | None:
        """Return the number of seconds until the next check of departures, or None if no member can leave."""
        if not self._joined.items:
            return None
        shortest = min(pool.config.join.leave_after for pool in self._collector.farm.pools if pool.config.join)
        return min(max(SHORTEST_CHECK, shortest / CHECKS), LONGEST_CHECK)

    def _record(self, joins: Iterable[JoinedMember], leaves: Iterable[tuple[JoinedMember, str]]) -> None:
        in_force = set(self._joined.items)
        came = [(each, f"joined with {' and '.join(each.addresses)}") for each in joins if each in in_force]
        for changes, what in ((came, "joined"), (list(leaves), "left")):
            for pool in dict.fromkeys(member.pool for member, _ in changes):
                self._record_pool(pool, what, [each for each in changes if each[0].pool == pool])

    def _record_pool(self, pool: str, what: str, changes: Sequence[tuple[JoinedMember, str]]) -> None:
        if len(changes) > SHOWN:
            names = ", ".join(member.name for member, _ in changes[:SHOWN])
            text = f"pool {pool}: {len(changes)} members {what}: {names} and {len(changes) - SHOWN} more"
            self._events.record("membership", text, pool=pool, logger=log.name)
            return
        for member, why in changes:
            text = f"pool {pool}: {member.name} {why if what == 'joined' else f'left: {why}'}"
            self._events.record("membership", text, pool=pool, member=member.name, logger=log.name)


def _reports(reading: Reading | None, now: float, stale_after: float) -> bool:
    return reading is not None and not reading.gone and now < silent_at(reading, stale_after)
