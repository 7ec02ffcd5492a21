"""Follows another collector: converts that collector's HTTP event stream into snapshots."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import aiohttp

from lbdns import __version__
from lbdns.config.collector_section import CollectorConfig
from lbdns.events.event_log import EventLog
from lbdns.events.server_sent_events import ServerSentEvent, ServerSentEventReader
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.farm import Farm
from lbdns.model.joined_members import JoinedMembers
from lbdns.model.overrides import Override
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.model.snapshot_maker import SnapshotMaker
from lbdns.process.apply_configuration import PreparedChange
from lbdns.process.background_tasks import end_task
from lbdns.secrets.http_credentials import HttpCredentials, read_tokens
from lbdns_collector.reports.snapshot_publisher import SnapshotPublisher
from lbdns_collector.status.status_document import FOLLOWER_KEEP_ALIVE
from lbdns_collector.status.status_document_reading import (
    ChangesReader,
    read_all_overrides,
    read_joined_members,
    read_member_overrides,
    read_status,
)

if TYPE_CHECKING:
    from prometheus_client.core import Metric

log = logging.getLogger("lbdns.follow")

DEAD_AFTER: Final = 3 * FOLLOWER_KEEP_ALIVE  # s without a byte, after which the connection counts as dead
CONNECT_TIMEOUT: Final = 5.0  # seconds
FIRST_PAUSE: Final = 0.2  # seconds before the first new attempt; doubled each time
LONGEST_PAUSE: Final = 5.0


class CollectorFollower:
    """Follows the collector at ``[collector] connect``, and delivers snapshots of the farm's members.

    While the connection is down, no snapshots are delivered, and the readings age as if the agents had stopped
    reporting.
    """

    def __init__(self, farm: Farm, dead_after: float = DEAD_AFTER, events: EventLog | None = None) -> None:
        self._events = events or EventLog()
        #: Called with the collector's overrides after each whole status, and whenever they change
        self.on_overrides: Callable[[Sequence[Override]], None] = lambda _: None
        #: Called with the collector's joined members after each whole status
        self.on_members: Callable[[JoinedMembers], None] = lambda _: None
        self._dead_after = dead_after
        self._overrides: Sequence[Override] | None = None  # all overrides that the collector sent last
        self._seen: dict[str, Reading] = {}  # all readings that the collector has sent, by full name
        self._maker = SnapshotMaker()  # of the readings in ``_seen`` that belong to this server's members
        self._use(farm, _headers(farm.config.collector))
        self._publisher: SnapshotPublisher | None = None
        self._task: asyncio.Task[None] | None = None
        self.connected = False  # True once a whole status has been read
        self._logged_failure = False  # so that each interruption is logged only once
        self._pause = FIRST_PAUSE  # seconds

    async def start(self, deliver: Callable[[Snapshot], None]) -> None:
        """Connect, and call ``deliver`` with a new snapshot whenever the collector sends a change."""
        loop = asyncio.get_running_loop()
        self._publisher = SnapshotPublisher(self._maker.make, deliver, loop.call_later, time.perf_counter)
        self._task = loop.create_task(self._follow())

    async def prepare(self, new: CheckedConfiguration) -> PreparedChange:
        """Return a change that switches to the members, URL and token of ``new``. Raises ConfigError for an unreadable
        token."""
        headers = _headers(new.farm.config.collector)
        old: list[asyncio.Task[None]] = []

        def commit() -> None:
            before = self._url, self._headers
            self._use(new.farm, headers)
            if self._publisher is not None:
                self._publisher.changed()
            if (self._url, self._headers) != before and self._task is not None:
                self._task.cancel()
                old.append(self._task)
                self._logged_failure = False
                self._task = asyncio.get_running_loop().create_task(self._follow())

        async def finish() -> None:
            if not old and self._overrides is not None:  # they may concern members that have just joined
                self._follow_overrides(self._overrides)
            await asyncio.gather(*old, return_exceptions=True)

        return PreparedChange("connection to the collector", commit, finish)

    async def stop(self) -> None:
        if self._publisher is not None:
            self._publisher.stop()
        await end_task(self._task)
        self._task = None

    def metric_families(self) -> Iterable[Metric]:
        """Return no metric families besides those of every follower."""
        return ()

    def _use(self, farm: Farm, headers: Mapping[str, str]) -> None:
        self._headers = headers
        self._url = farm.config.collector.connect
        self._reader = ChangesReader(farm.config.server.plane)
        self._members = {member.full_name for pool in farm.pools for member in pool.members}
        self._maker.replace_all(self._of_members(self._seen))

    def _of_members(self, readings: Mapping[str, Reading]) -> Mapping[str, Reading]:
        return {name: reading for name, reading in readings.items() if name in self._members}

    async def _follow(self) -> None:
        self._pause = FIRST_PAUSE
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=self._dead_after)
        # Open a new connection for every attempt, since one that was kept may already be dead
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=self._headers) as session:
            while True:
                try:
                    trouble = await self._read_stream(session)
                except Exception:
                    # A subscriber failed on a snapshot; stopping would be worse than trying again
                    log.exception("collector %s: processing the collector's data failed", self._url)
                    trouble = "reconnecting"
                self.connected = False
                if not self._logged_failure:
                    self._logged_failure = True
                    what = f"collector {self._url}: {trouble}; readings age until the connection is back; retrying"
                    self._events.record("collector", what, level=logging.WARNING, logger=log.name)
                await asyncio.sleep(self._pause)
                self._pause = min(2 * self._pause, LONGEST_PAUSE)

    async def _read_stream(self, session: aiohttp.ClientSession) -> str:
        """Read events until the connection ends, and return the reason for the disconnection."""
        events = ServerSentEventReader()
        try:
            async with session.get(f"{self._url.rstrip('/')}/api/v1/events", params={"changes": "1"}) as response:
                if response.status in (401, 403):
                    return (
                        f"the collector refuses this server ({response.status}): the collector's [web] allow "
                        "must contain this server's network, and this server's [collector] connect_token_file must "
                        "contain a token from the collector's [web] token_file"
                    )
                if response.status != 200 or response.content_type != "text/event-stream":
                    return (
                        f"the server answered {response.status} {response.content_type}; "
                        "check whether it is an lbdns collector"
                    )
                async for piece in response.content.iter_any():
                    for event in events.feed(piece):
                        if trouble := self._take(event):
                            return trouble
        except TimeoutError:
            return f"the collector sent nothing for {self._dead_after:g} s"
        except (aiohttp.ClientError, OSError) as error:
            return str(error) or type(error).__name__
        except ValueError as error:
            return f"the collector sent invalid data: {error}"
        return "the collector closed the connection"

    def _take(self, event: ServerSentEvent) -> str:
        """Handle an event. Return a description of the error in an event, or an empty string if the event is valid."""
        if event.name not in ("status", "changes", "overrides"):
            return ""  # from a newer collector
        try:
            if event.name == "overrides":
                self._follow_overrides(read_all_overrides(json.loads(event.data)))
                return ""
            now = time.monotonic()
            document = json.loads(event.data) if event.name == "status" else None
            readings = self._reader.read(event.data, now) if document is None else read_status(document, now)
            joined = None if document is None else read_joined_members(document)
            overrides = () if document is None else read_member_overrides(document)
        except ValueError as error:
            return f"the collector sent an invalid status: {error}"
        # Keep the readings of members for which the collector has none: after a restart it has yet to receive reports
        known = {name: reading for name, reading in readings.items() if reading is not None}
        self._seen.update(known)
        self._maker.update(self._of_members(known))
        if joined is not None:
            self.on_members(joined)
            self._follow_overrides(overrides)
            self._seen = {n: r for n, r in self._seen.items() if n in readings or n in self._members}
            self._connected(self._members - readings.keys())
        if self._publisher is not None:
            self._publisher.changed()
        return ""

    def _follow_overrides(self, overrides: Sequence[Override]) -> None:
        self._overrides = overrides
        self.on_overrides([replace(each, origin=self._url) for each in overrides if each.member in self._members])

    def _connected(self, missing: set[str]) -> None:
        """Record that a full status has arrived.

        The collector sends a full status on each new connection and at each reload. ``missing`` contains the members
        that are in this server's configuration but not in the collector's configuration.
        """
        if not self.connected:
            self._events.record("collector", f"collector {self._url}: connected", logger=log.name)
        self.connected, self._logged_failure, self._pause = True, False, FIRST_PAUSE
        if missing:
            some = ", ".join(sorted(missing)[:5]) + (", ..." if len(missing) > 5 else "")
            log.warning(
                "collector %s: its pools do not contain the members %s; add them to the collector's configuration",
                self._url,
                some,
            )


def _headers(config: CollectorConfig) -> Mapping[str, str]:
    """Return the HTTP headers for requests to the collector. Raises ConfigError if the token cannot be read."""
    headers = {"User-Agent": f"lbdns/{__version__}"}
    if config.connect_token_file:
        tokens, warnings = read_tokens(config.connect_token_file, "[collector] connect_token_file")
        headers["Authorization"] = HttpCredentials(tokens=tokens).header()
        for warning in warnings:
            log.warning(warning)
    return headers
