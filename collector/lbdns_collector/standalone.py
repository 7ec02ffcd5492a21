"""The collector as a program of its own: reports in, HTTP out, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbdns import program
from lbdns.errors import ConfigError, LbdnsError, UnknownNameError
from lbdns.events import Events
from lbdns.farm import Farm, load_farm
from lbdns.keys import MasterKey
from lbdns.overrides import NO_OVERRIDES
from lbdns.policies.guard_rails.guards import Guard
from lbdns.server.net.lag import LoopLag
from lbdns.server.plans import Planner
from lbdns.server.process import privileges
from lbdns.snapshot import EMPTY, Snapshot
from lbdns_collector.collector import Collector, load_keys
from lbdns_collector.pages import Pages
from lbdns_collector.recording import Recording
from lbdns_collector.score import Score
from lbdns_collector.stat_file import StatFile
from lbdns_collector.status import AdaptedFigures, ShadowFigures

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from lbdns.history.history import History

log = logging.getLogger("lbdns.collector")


class OwnSource:
    """The StatusSource of a collector alone: it answers no queries and drains nobody."""

    queries = 0
    workers = 0
    overrides = NO_OVERRIDES

    def __init__(self, collector: Collector, events: Events) -> None:
        self._collector = collector
        self.events = events
        self.history: History | None = None
        self.lag: LoopLag | None = None
        self._started = time.monotonic()
        self._callbacks: list[Callable[[], None]] = []
        self.snapshot: Snapshot = EMPTY
        self.serving = False
        # It plans nothing here, but tells what becomes of members
        self._planner = Planner(collector.farm, {}, asyncio.get_running_loop(), events=events)

    def deliver(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._planner.deliver(snapshot)
        self.changed()

    def reload(self) -> None:
        """The collector has another configuration."""
        self._planner.use(self.farm, {})
        self.changed()

    def stop(self) -> None:
        self._planner.stop()

    def changed(self) -> None:
        for callback in tuple(self._callbacks):
            callback()

    @property
    def farm(self) -> Farm:
        return self._collector.farm

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self._started

    @property
    def report_counts(self) -> Mapping[str, int]:
        return self._collector.counts

    @property
    def score(self) -> Score:
        return self._collector.score

    def capacities(self, pool: str) -> tuple[Sequence[float], bool]:
        return self._planner.capacities(pool)

    def asked(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        return {}, {}

    async def explain(self, name: str) -> Mapping[str, Any]:
        raise UnknownNameError("a collector answers no queries; ask the DNS servers that follow it")

    def answers(self, pool: str) -> Sequence[int]:
        return ()

    def guards(self, pool: str) -> Sequence[Guard]:
        return ()

    def shadows(self) -> Mapping[str, Sequence[ShadowFigures]]:
        return {}

    @property
    def adapted(self) -> AdaptedFigures | None:
        return self._collector.adapted

    async def refresh(self) -> None:
        """Everything is known here."""

    def metric_families(self) -> Iterable[Metric]:
        from lbdns_collector.web.metrics import collector_families
        from lbdns_collector.web.program_metrics import lag_families

        yield from collector_families(self._collector)
        if self.lag:
            found = self.lag.figures()
            yield from lag_families(found.lag, found.lag_us)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)


class Standalone:
    """Collector, pages and stat file of one configuration file: a program in the sense of ``lbdns.program``.

    To be made inside the event loop. Raises ConfigError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        farm, keys = load(path)
        self.events = Events()
        self._collector = Collector(farm, keys, self.events)
        self._source = OwnSource(self._collector, self.events)
        self._recording = Recording(self._source)
        self._pages = Pages(self._source)
        self._stat_file = StatFile(self._source)

    @property
    def user(self) -> str:
        """Who it is to become."""
        return self._source.farm.config.server.user

    async def start(self) -> None:
        """Open the sockets, give up root, then open the pages. Raises LbdnsError, and then holds nothing."""
        farm = self._source.farm
        for warning in farm.warnings:
            log.warning(warning)
        if farm.config.web.listen is None and farm.config.collector.stat_file is None:
            log.warning("[web] listen is off and there is no stat_file: nobody can see what is collected")
        try:
            await self._collector.start(self._source.deliver)
            privileges.own_folder(farm.config.server.state_dir, farm.config.server.user)
            privileges.become(farm.config.server.user)
            self._source.serving = True
            self._source.lag = LoopLag("main")
            await self._pages.serve_at(farm.config.web)
        except LbdnsError:
            await self.stop()
            raise
        self._stat_file.start()
        await self._record()
        members = {member.full_name for pool in farm.pools for member in pool.members}
        self.events.tell("server", f"ready: {len(farm.pools)} pools, {len(members)} members", logger=log.name)

    async def _record(self) -> None:
        await self._recording.use(self._source.farm.config)
        self._source.history = self._recording.history

    async def stop(self) -> None:
        self._source.serving = False
        if self._source.lag:
            self._source.lag.stop()
        await self._stat_file.stop()
        await self._pages.stop()
        await self._recording.stop()
        await self._collector.stop()
        self._source.stop()

    async def reload(self) -> None:
        """Raises LbdnsError, and then everything is as it was. No report and no score is lost."""
        # In a thread: a large zone takes seconds to read, in which reports keep coming
        farm, keys = await asyncio.to_thread(load, self._path)
        before = self._source.farm.config
        if farm.config.server.user != before.server.user:
            raise ConfigError(f"{self._path}: [server] user: changing it needs a restart")
        await self._pages.serve_at(farm.config.web)
        try:
            await self._collector.reload(farm, keys)
        except LbdnsError:
            await self._pages.serve_at(before.web)
            raise
        self._source.reload()
        await self._record()
        for warning in farm.warnings:
            log.warning(warning)


def load(path: Path) -> tuple[Farm, tuple[MasterKey, ...]]:
    """Configuration, zones and keys of a collector alone. Raises ConfigError."""
    farm = load_farm(path)
    connect = farm.config.collector.connect
    if connect:
        raise ConfigError(
            f"{path}: [collector] connect: {connect!r} makes 'lbdns serve' follow another collector; "
            "lbdns-collector receives reports itself: take connect out of its configuration"
        )
    privileges.check_user(farm.config.server.user)
    return farm, load_keys(farm.config)


async def run(path: Path) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP reloads. Raises LbdnsError when it can't start."""
    standalone = Standalone(path)
    privileges.limit(standalone.user)
    await program.run(standalone)
