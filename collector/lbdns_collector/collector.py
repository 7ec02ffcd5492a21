"""The collector: sockets, table and publishing joined, as ``lbdns serve`` embeds it and ``lbdns-collector`` runs it."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from lbdns.config import Config
from lbdns.endpoint import Endpoint
from lbdns.errors import ConfigError
from lbdns.events import Events
from lbdns.farm import Farm
from lbdns.keys import MasterKey, read_key_file
from lbdns.snapshot import Snapshot
from lbdns_collector.adaptive import Adaptive, Settings
from lbdns_collector.publish import Publisher
from lbdns_collector.receive import ReportSocket
from lbdns_collector.score import Score, build_score, build_shadow_score
from lbdns_collector.status import AdaptedFigures
from lbdns_collector.table import Table

log = logging.getLogger("lbdns.collector")

NONE_GIVEN: Final[Mapping[Endpoint, socket.socket]] = MappingProxyType({})


def load_keys(config: Config) -> tuple[MasterKey, ...]:
    """The master keys of ``[collector] key_file``, none without one. Raises ConfigError; warnings are logged."""
    path = config.collector.key_file
    if path is None:
        return ()
    keys, warnings = read_key_file(path)
    if not keys.masters:
        raise ConfigError(
            f"{path}: key file: holds no master key, only those of agents. 'lbdns keygen' prints a master line"
        )
    for warning in warnings:
        log.warning(warning)
    return keys.masters


class Collector:
    """Receives reports on the farm's addresses and hands on snapshots."""

    def __init__(self, farm: Farm, keys: Sequence[MasterKey], events: Events | None = None) -> None:
        """``events``: where to tell what happens."""
        self.farm = farm
        self._events = events or Events()
        self.table = Table(farm.hosts, keys, build_score(farm.config), build_shadow_score(farm.config))
        self.table.adaptive = _adaptive(farm.config, None)
        self._keyed = bool(keys)
        self._sockets: list[ReportSocket] = []
        self._lost = 0  # overflows of sockets that are closed
        self._publisher: Publisher | None = None
        self._paused = False

    def open(self, given: Mapping[Endpoint, socket.socket] = NONE_GIVEN) -> None:
        """Open the sockets, or take those that are given, by the address that was asked for; reports wait in them.

        Raises ListenError, and then holds nothing.
        """
        wanted = dict.fromkeys(self.farm.config.collector.listen)
        taken = [ReportSocket(endpoint, given=sock) for endpoint, sock in given.items()]
        try:
            self._sockets = taken + self._open([endpoint for endpoint in wanted if endpoint not in given], [])
        except BaseException:
            self._close(taken, leave=True)
            raise

    async def start(self, deliver: Callable[[Snapshot], None]) -> None:
        """Receive; ``deliver`` is called with a snapshot whenever reports have changed it.

        Opens the sockets if they aren't. Raises ListenError, and then holds nothing.
        """
        if not self._sockets:
            self.open()
        loop = asyncio.get_running_loop()
        self._publisher = Publisher(self.table.snapshot, deliver, loop.call_later, time.perf_counter)
        self._attach(self._sockets)
        self._tell_how_trusted(self._keyed)
        # Of sockets that were given some may not be wanted: what waits in them is taken in all the same
        wanted = self.farm.config.collector.listen
        self._close([sock for sock in self._sockets if sock.asked not in wanted])
        self._sockets = [sock for sock in self._sockets if sock.asked in wanted]
        self._changed()

    async def stop(self) -> None:
        """Close the sockets; reports that had arrived are still taken in, and nothing more is delivered.

        Unless paused: then somebody else goes on with what waits in them.
        """
        never_started = self._publisher is None
        if self._publisher is not None:
            self._publisher.stop()
            self._publisher = None
        self._close(self._sockets, leave=self._paused or never_started)
        self._sockets = []

    def pause(self) -> None:
        """Read no report for now; what arrives waits."""
        self._paused = True
        for sock in self._sockets:
            sock.pause(asyncio.get_running_loop())

    def resume(self) -> None:
        self._paused = False
        for sock in self._sockets:
            sock.resume(asyncio.get_running_loop())

    def duplicates(self) -> Iterator[tuple[Endpoint, socket.socket]]:
        """The sockets for another process, with the addresses that were asked for."""
        for sock in self._sockets:
            yield sock.asked, sock.duplicate()

    async def reload(self, farm: Farm, keys: Sequence[MasterKey]) -> None:
        """Go on with another configuration; no report that has arrived is lost.

        Raises ListenError when an address can't be listened on: then everything stays as it was.
        """
        wanted = farm.config.collector.listen
        kept = [sock for sock in self._sockets if sock.asked in wanted]
        dropped = [sock for sock in self._sockets if sock.asked not in wanted]
        have = [sock.asked for sock in kept]
        fresh = self._open([endpoint for endpoint in wanted if endpoint not in have], dropped)
        self._attach(fresh)
        self._close(dropped)
        self._sockets = kept + fresh
        self.farm = farm
        adaptive = self.table.adaptive = _adaptive(farm.config, self.table.adaptive)
        score = adaptive.score if adaptive else build_score(farm.config)
        self.table.reconfigure(farm.hosts, keys, score, build_shadow_score(farm.config))
        if bool(keys) != self._keyed:
            self._keyed = bool(keys)
            self._tell_how_trusted(self._keyed)
        self._changed()

    @property
    def addresses(self) -> tuple[Endpoint, ...]:
        """Where reports are received, with the real port where 0 was asked for."""
        return tuple(sock.address for sock in self._sockets)

    @property
    def counts(self) -> Mapping[str, int]:
        """Datagrams so far, by result: "accepted" and every reason of ``lbdns.report.REASONS``."""
        return self.table.counts

    @property
    def overflows(self) -> int:
        """Datagrams so far that the kernel dropped because they came faster than they were read."""
        return self._lost + sum(sock.overflows for sock in self._sockets)

    @property
    def score(self) -> Score:
        """What scores are made by just now; of reports before, it may have been another."""
        return self.table.score

    @property
    def adapted(self) -> AdaptedFigures | None:
        """The weights that the adaptive mode uses, where it is on."""
        adaptive = self.table.adaptive
        if adaptive is None:
            return None
        name = self.farm.config.collector.score
        return AdaptedFigures(name, adaptive.weights, adaptive.trials, adaptive.accepted, adaptive.gain)

    def _changed(self) -> None:
        if self.table.adaptive:
            for line in self.table.adaptive.take_news():
                log.info("score %s: %s", self.farm.config.collector.score, line)
        if self._publisher is not None:
            self._publisher.changed()

    def _open(self, endpoints: Sequence[Endpoint], replaced: Sequence[ReportSocket]) -> list[ReportSocket]:
        """All of them or none. Those ``replaced`` may overlap: 0.0.0.0 gives way to one address, or the reverse."""
        for sock in replaced:
            sock.allow_sharing(True)
        opened: list[ReportSocket] = []
        try:
            for endpoint in dict.fromkeys(endpoints):
                overlaps = endpoint.port in [sock.address.port for sock in replaced]
                opened.append(ReportSocket(endpoint, share=overlaps))
        except BaseException:
            self._close(opened)
            for sock in replaced:
                sock.allow_sharing(False)
            raise
        for sock in opened:
            sock.allow_sharing(False)
        return opened

    def _attach(self, sockets: Sequence[ReportSocket]) -> None:
        loop = asyncio.get_running_loop()
        for sock in sockets:
            sock.attach(self.table, self._changed, loop, self._events)
            log.info("receiving reports on %s", sock.address)

    def _close(self, sockets: Sequence[ReportSocket], leave: bool = False) -> None:
        loop = asyncio.get_running_loop()
        for sock in sockets:
            self._lost += sock.overflows
            sock.close(loop, leave)

    @staticmethod
    def _tell_how_trusted(keyed: bool) -> None:
        if keyed:
            log.info("reports count when their tag fits the key file")
        else:
            log.warning("no key_file: reports count when they come from the member's own address, which can be forged")


def _adaptive(config: Config, before: Adaptive | None) -> Adaptive | None:
    """What looks for better weights, if the configuration wants it; the one from ``before`` if it would look for the
    same, with all it has found."""
    if not config.collector.adapt:
        return None
    score = build_score(config)
    settings = Settings(config.collector.adapt_factor, config.collector.adapt_period)
    if before and before.configured == dict(score.terms) and before.settings == settings:
        return before
    return Adaptive(score.terms, settings, random.Random())
