"""``lbdns serve``: the DNS server with its source of snapshots and its pages, opened, reloaded and closed as one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from lbdns.answering.respond import Responder
from lbdns.answering.table import Table
from lbdns.endpoint import Endpoint
from lbdns.errors import ConfigError, LbdnsError
from lbdns.farm import Farm, load_farm
from lbdns.keys import MasterKey
from lbdns.server import privileges
from lbdns.server.durations import Durations
from lbdns.server.listeners import Listeners
from lbdns.server.plans import Planner
from lbdns.server.source import ServerSource
from lbdns.snapshot import Snapshot
from lbdns_collector.collector import Collector, load_keys
from lbdns_collector.pages import Pages
from lbdns_collector.stat_file import StatFile

log = logging.getLogger("lbdns.server")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration with everything it names, read and checked."""

    farm: Farm
    keys: tuple[MasterKey, ...]
    table: Table


def load(path: Path, listen: Sequence[Endpoint] = ()) -> Loaded:
    """Read a configuration for ``lbdns serve``; ``listen`` overrules its addresses. Raises ConfigError."""
    farm = load_farm(path)
    if listen:
        config = farm.config
        farm = replace(farm, config=replace(config, server=replace(config.server, listen=tuple(listen))))
    privileges.check_user(farm.config.server.user)
    return Loaded(farm, load_keys(farm.config), Table(farm))


class Feed(Protocol):
    """Where snapshots come from: the embedded collector, or one that is followed."""

    async def start(self, deliver: Callable[[Snapshot], None]) -> None: ...
    async def reload(self, farm: Farm, keys: Sequence[MasterKey]) -> None: ...
    async def stop(self) -> None: ...


class DnsServer:
    """A program in the sense of ``lbdns.program``. To be made inside the event loop. Raises ConfigError."""

    def __init__(self, path: Path, listen: Sequence[Endpoint] = ()) -> None:
        self._path, self._listen = path, listen
        loaded = load(path, listen)
        self.farm = loaded.farm
        self._responder = Responder(loaded.table)
        self._durations = Durations()
        self._listeners = Listeners(self._responder, self._durations)
        self._planner = Planner(loaded.table, asyncio.get_running_loop())
        self._source = ServerSource(self._responder, self._durations, self._listeners, self._planner)
        self._feed = self._make_feed(loaded)
        self._pages = Pages(self._source)
        self._stat_file = StatFile(self._source)

    def _make_feed(self, loaded: Loaded) -> Feed:
        if loaded.farm.config.collector.connect:
            # Here: only a server that follows another collector needs an HTTP client
            from lbdns.server.follow import Follower

            return Follower(loaded.farm)
        collector = Collector(loaded.farm, loaded.keys)
        self._source.collector = collector
        return collector

    async def start(self) -> None:
        """Open the sockets, give up root, then open the pages. Raises LbdnsError, and then holds nothing."""
        for warning in self.farm.warnings:
            log.warning(warning)
        server = self.farm.config.server
        try:
            await self._listeners.listen(server.listen)
            await self._feed.start(self._planner.deliver)
            if privileges.will_become(server.user):
                await asyncio.to_thread(privileges.read_ahead)
                privileges.become(server.user)
            self._source.serving = True
            await self._pages.serve_at(self.farm.config.web)
        except LbdnsError:
            await self.stop()
            raise
        self._stat_file.start()
        log.info("ready: %d zones, %d pools", len(self.farm.zones), len(self.farm.pools))

    async def stop(self) -> None:
        self._source.serving = False
        await self._stat_file.stop()
        await self._pages.stop()
        await self._feed.stop()
        await self._listeners.close()
        self._planner.stop()

    async def reload(self) -> None:
        """Raises LbdnsError, and then everything is as it was. No query, report, score or counter is lost."""
        # In a thread: a large zone takes seconds to read, in which queries are answered
        loaded = await asyncio.to_thread(load, self._path, self._listen)
        self._refuse_what_needs_a_restart(loaded.farm)
        before = self.farm.config
        # Nothing is closed before everything is open: without root, port 53 could not be had back
        sockets = self._listeners.prepare(loaded.farm.config.server.listen)
        try:
            await self._pages.serve_at(loaded.farm.config.web)
            await self._feed.reload(loaded.farm, loaded.keys)
        except BaseException:
            sockets.drop()
            await self._pages.serve_at(before.web)
            raise
        await sockets.carry_out()
        loaded.table.take_over(self._responder.table)
        self.farm = loaded.farm
        self._responder.table = loaded.table
        self._planner.use(loaded.table)  # last: its subscribers look at the new farm
        for warning in loaded.farm.warnings:
            log.warning(warning)

    def _refuse_what_needs_a_restart(self, farm: Farm) -> None:
        now, new = self.farm.config, farm.config
        if bool(new.collector.connect) != bool(now.collector.connect):
            raise ConfigError(f"{self._path}: [collector] connect: following instead of receiving needs a restart")
        for key in ("user", "workers"):
            if getattr(new.server, key) != getattr(now.server, key):
                raise ConfigError(f"{self._path}: [server] {key}: changing it needs a restart")
