"""Following a collector elsewhere: its event stream over HTTP becomes the same snapshots as an embedded one's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import aiohttp

from lbdns import __version__
from lbdns.config.collector import CollectorConfig
from lbdns.event_stream import Event, EventReader
from lbdns.events import Events
from lbdns.farm import Farm
from lbdns.http_credentials import Credentials, read_tokens
from lbdns.keys import MasterKey
from lbdns.snapshot import EMPTY, Reading, Snapshot
from lbdns_collector.publish import Publisher
from lbdns_collector.status import FOLLOWER_KEEP_ALIVE
from lbdns_collector.status_reader import read_status

log = logging.getLogger("lbdns.follow")

DEAD_AFTER: Final = 3 * FOLLOWER_KEEP_ALIVE  # seconds without a byte: the connection is one only in name
CONNECT_TIMEOUT: Final = 5.0  # seconds
FIRST_PAUSE: Final = 0.2  # seconds before the first new attempt; doubled each time
LONGEST_PAUSE: Final = 5.0


class Follower:
    """Reads ``[collector] connect`` of the farm's configuration for ever, and hands on snapshots of its members.

    While the connection is cut nothing is delivered: what is known ages, as it does when agents fall silent.
    """

    def __init__(self, farm: Farm, dead_after: float = DEAD_AFTER, events: Events | None = None) -> None:
        self._events = events or Events()
        self._use(farm)
        self._dead_after = dead_after
        self._seen: dict[str, Reading] = {}  # all that the collector told, by full name
        self._snapshot = EMPTY
        self._publisher: Publisher | None = None
        self._task: asyncio.Task[None] | None = None
        self._following = False  # connected, and the whole status read
        self._told_trouble = False  # one line when it is cut, one when it is back
        self._pause = FIRST_PAUSE  # seconds

    @property
    def connected(self) -> bool:
        """Whether the collector is heard: connected, and the whole status read."""
        return self._following

    async def start(self, deliver: Callable[[Snapshot], None]) -> None:
        """Begin; ``deliver`` is called with a snapshot whenever the collector told something new."""
        loop = asyncio.get_running_loop()
        self._publisher = Publisher(self._make, deliver, loop.call_later, time.perf_counter)
        self._task = loop.create_task(self._follow())

    async def reload(self, farm: Farm, keys: Sequence[MasterKey]) -> None:
        """Go on with another configuration, and at another URL if it names one. ``keys`` are the collector's affair.

        Raises ConfigError for a token that can't be read, and then everything is as it was.
        """
        before = self._url, self._headers
        self._use(farm)
        if self._publisher is not None:
            self._publisher.changed()
        if (self._url, self._headers) != before and self._task is not None:
            await self._end()
            self._told_trouble = False
            self._task = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        if self._publisher is not None:
            self._publisher.stop()
        await self._end()

    async def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def _use(self, farm: Farm) -> None:
        self._headers = _headers(farm.config.collector)  # first: it may not be possible
        self._url = farm.config.collector.connect
        self._members = {member.full_name for pool in farm.pools for member in pool.members}

    def _make(self) -> Snapshot:
        readings = {name: self._seen[name] for name in self._members if name in self._seen}
        self._snapshot = Snapshot(self._snapshot.version + 1, readings)
        return self._snapshot

    async def _follow(self) -> None:
        self._pause = FIRST_PAUSE
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=self._dead_after)
        # A connection of its own for every attempt: one left over from before may be dead already
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=self._headers) as session:
            while True:
                try:
                    trouble = await self._read_stream(session)
                except Exception:
                    # Of what is done with the snapshot; to stop following would be worse than to repeat it
                    log.exception("collector %s: its news could not be used", self._url)
                    trouble = "starting anew"
                self._following = False
                if not self._told_trouble:
                    self._told_trouble = True
                    what = f"collector {self._url}: {trouble}; what is known ages, trying until it is back"
                    self._events.tell("collector", what, level=logging.WARNING, logger=log.name)
                await asyncio.sleep(self._pause)
                self._pause = min(2 * self._pause, LONGEST_PAUSE)

    async def _read_stream(self, session: aiohttp.ClientSession) -> str:
        """Follow one connection to its end; what ended it, for a person to read."""
        events = EventReader()
        try:
            async with session.get(f"{self._url.rstrip('/')}/api/v1/events", params={"changes": "1"}) as response:
                if response.status in (401, 403):
                    return (
                        f"refuses us ({response.status}): its [web] allow has to have our network, and our "
                        "[collector] connect_token_file a token of its [web] token_file"
                    )
                if response.status != 200 or response.content_type != "text/event-stream":
                    return f"answers {response.status} {response.content_type}; is it an lbdns collector?"
                async for piece in response.content.iter_any():
                    for event in events.feed(piece):
                        if trouble := self._take(event):
                            return trouble
        except TimeoutError:
            return f"nothing heard for {self._dead_after:g} s"
        except (aiohttp.ClientError, OSError) as error:
            return str(error) or type(error).__name__
        except ValueError as error:
            return f"sends what can't be read: {error}"
        return "has closed the connection"

    def _take(self, event: Event) -> str:
        """Take in an event; what is wrong with it, for a person to read, or nothing."""
        if event.name not in ("status", "changes"):
            return ""  # of a newer collector
        try:
            readings = read_status(json.loads(event.data), time.monotonic())
        except ValueError as error:
            return f"sends what is no status of lbdns: {error}"
        # A member unknown there may be known here: a collector that was restarted has yet to hear of it
        self._seen.update((name, reading) for name, reading in readings.items() if reading is not None)
        if event.name == "status":
            self._seen = {n: r for n, r in self._seen.items() if n in readings or n in self._members}
            self._connected(self._members - readings.keys())
        if self._publisher is not None:
            self._publisher.changed()
        return ""

    def _connected(self, missing: set[str]) -> None:
        """The whole status has come: at the start of a connection, and whenever the collector was reloaded."""
        if not self._following:
            self._events.tell("collector", f"collector {self._url}: following", logger=log.name)
        self._following, self._told_trouble, self._pause = True, False, FIRST_PAUSE
        if missing:
            some = ", ".join(sorted(missing)[:5]) + (", ..." if len(missing) > 5 else "")
            log.warning("collector %s: does not know %s; put the members into its pools too", self._url, some)


def _headers(config: CollectorConfig) -> Mapping[str, str]:
    """What to send along. Raises ConfigError."""
    headers = {"User-Agent": f"lbdns/{__version__}"}
    if config.connect_token_file:
        tokens, warnings = read_tokens(config.connect_token_file, "[collector] connect_token_file")
        headers["Authorization"] = Credentials(tokens=tokens).header()
        for warning in warnings:
            log.warning(warning)
    return headers
