"""``lbdns serve``: the DNS server with its source of snapshots, its pages and its control socket, opened, reloaded and
closed as one."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from lbdns import program
from lbdns.endpoint import Endpoint
from lbdns.errors import ConfigError, LbdnsError
from lbdns.events import Events
from lbdns.farm import Farm
from lbdns.keys import MasterKey
from lbdns.server.alone import Alone
from lbdns.server.answerer import Answerer, Work
from lbdns.server.figures import Figures
from lbdns.server.loading import NO_OPTIONS, Loaded, Options, load
from lbdns.server.net.given import Given, same_place
from lbdns.server.net.sockets import Change, Sockets
from lbdns.server.orders import takeover
from lbdns.server.orders.control import Command, ControlSocket, Order
from lbdns.server.orders.overriding import Overriding
from lbdns.server.process import privileges, service
from lbdns.server.secondaries.notifier import Notifier
from lbdns.server.secondaries.serials import SerialFile
from lbdns.server.secrets import new_secret
from lbdns.server.source import ServerSource
from lbdns.server.workers.crew import Crew
from lbdns.server.workers.nursery import Nursery
from lbdns.snapshot import Snapshot
from lbdns_collector.collector import Collector
from lbdns_collector.pages import Pages, open_socket
from lbdns_collector.recording import Recording
from lbdns_collector.stat_file import StatFile

log = logging.getLogger("lbdns.server")


class Feed(Protocol):
    """Where snapshots come from: the embedded collector, or one that is followed."""

    async def start(self, deliver: Callable[[Snapshot], None]) -> None: ...
    async def reload(self, farm: Farm, keys: Sequence[MasterKey]) -> None: ...
    async def stop(self) -> None: ...


class DnsServer:
    """A program in the sense of ``lbdns.program``. To be made inside the event loop. Raises ConfigError."""

    def __init__(
        self,
        path: Path,
        options: Options = NO_OPTIONS,
        nursery: Nursery | None = None,
        given: Sequence[Given] = (),
    ) -> None:
        """``nursery`` starts the workers, if there are to be several; ``given`` are sockets that are open already."""
        self._path, self._options, self._given = path, options, given
        loaded = load(path, options)
        self.farm = loaded.farm
        self._loaded = loaded
        self.events = Events()
        self._own_secrets: tuple[bytes, ...] = (new_secret(),)
        self.over = asyncio.Event()  # set when this server has come to its end by itself ...
        self.failure = ""  # ... and why, if it was no successor who took its place
        self._answerer = self._make_answerer(nursery)
        self._sockets = Sockets()
        self._source = ServerSource(loaded.farm, self._answerer, self.events)
        self._recording = Recording(self._source)
        self._collector: Collector | None = None
        self._feed = self._make_feed(loaded)
        self._pages = Pages(self._source)
        self._stat_file = StatFile(self._source)
        self._serial_file, self._notifier = SerialFile(), Notifier()
        self._overriding = Overriding(loaded.farm, self._answerer, self.events)
        self.commands: Mapping[str, Command] = {
            "reload": self._order_reload,
            "take-over": self._order_take_over,
            "explain": self._order_explain,
            **self._overriding.commands,
        }
        self._control = ControlSocket(self.commands)
        self._predecessor: takeover.Predecessor | None = None
        self._finished = False  # a successor has told us to end
        self._changing = asyncio.Lock()  # a reload, or a hand-over: one at a time

    def _make_answerer(self, nursery: Nursery | None) -> Answerer:
        workers = self.farm.config.server.workers
        if nursery is None:
            return Alone(self._loaded.table, self._secrets, events=self.events)
        return Crew(self.farm, nursery, workers, self._lose, self.events)

    @property
    def _secrets(self) -> tuple[bytes, ...]:
        """Of cookies: those of the configuration, or else our own, as long as there is anybody of us."""
        return self._loaded.secrets or self._own_secrets

    def _make_feed(self, loaded: Loaded) -> Feed:
        if loaded.farm.config.collector.connect:
            # Here: only a server that follows another collector needs an HTTP client
            from lbdns.server.follow import Follower

            self._source.follower = Follower(loaded.farm, events=self.events)
            return self._source.follower
        self._collector = self._source.collector = Collector(loaded.farm, loaded.keys, self.events)
        return self._collector

    async def start(self) -> None:
        """Open the sockets, give up root, then open the pages. Raises LbdnsError, and then holds nothing."""
        for warning in self.farm.warnings:
            log.warning(warning)
        try:
            if self._options.take_over:
                await self._take_over()
            else:
                await self._open()
        except LbdnsError:
            await self.stop()
            raise
        self._stat_file.start()
        self._serve_secondaries()
        await self._record()
        plane = self._loaded.table.plane.name
        what = f"ready: {len(self.farm.zones)} zones, {len(self.farm.pools)} pools, {plane} plane"
        self.events.tell("server", what, logger=log.name)
        service.notify(service.ready(os.getpid()))

    def _serve_secondaries(self) -> None:
        """The zones are in force: keep their serials, and tell their secondaries."""
        self._serial_file.write(self.farm, self._loaded.serials)
        self._notifier.reload(self.farm)

    async def _record(self) -> None:
        await self._recording.use(self.farm.config)
        self._source.history = self._recording.history

    async def _open(self) -> None:
        await self._overriding.restore()
        await self._answer_on(self._prepare(self._given))
        if self._collector:
            self._collector.open(_by_place(self._given, "reports", self.farm.config.collector.listen))
        await self._feed.start(self._answerer.deliver)
        await self._take_orders()
        await self._drop_root()
        self._overriding.begin()
        self._source.serving = True
        web = self.farm.config.web.listen
        await self._pages.serve_at(self.farm.config.web, _by_place(self._given, "web", [web]).get(web) if web else None)

    async def _take_over(self) -> None:
        """Start beside the server that runs, and have it end when nothing can fail any more."""
        config = self.farm.config
        self._predecessor = predecessor = await takeover.Predecessor.meet(config.server.control)
        self._own_secrets = predecessor.secrets or self._own_secrets
        change = self._prepare(predecessor.given)
        if self._collector:
            self._collector.open({given.asked: given.sock for given in predecessor.given if given.purpose == "reports"})
        web = _web_socket(config.web.listen, predecessor.given)
        self._overriding.inherit(predecessor.overrides)
        self._answerer.deliver(predecessor.snapshot)
        await self._answer_on(change)
        await self._drop_root()
        state, now = await predecessor.reports(), time.monotonic()
        if self._collector and state is not None:
            try:
                self._collector.table.restore(state, now)
            except ValueError as error:
                raise LbdnsError(f"--take-over: {config.server.control}: {error}") from None
        try:
            self._source.inherit(await predecessor.finish())
        except LbdnsError as error:
            log.warning("%s. What it has counted is not known", error)  # it was told to end: now it is up to us
        self._overriding.begin()
        await self._feed.start(self._answerer.deliver)
        # Sockets that nobody asks for any more: others answered on them until now, and now they can be emptied
        await self._answer_on(self._prepare())
        await self._take_orders(_control_socket(config.server.control, predecessor.given))
        self._source.serving = True
        await self._pages.serve_at(config.web, web)

    def _prepare(self, given: Sequence[Given] = ()) -> Change:
        listen, workers = self.farm.config.server.listen, self._answerer.workers
        return self._sockets.prepare(listen, workers, [g for g in given if g.purpose == "dns"])

    async def _answer_on(self, change: Change) -> None:
        try:
            dealt = change.dealt(self._answerer.workers)
            await self._answerer.use(Work(self.farm, self._loaded.table, self._secrets, dealt))
        finally:
            change.keep()

    async def _take_orders(self, sock: socket.socket | None = None) -> None:
        server = self.farm.config.server
        await self._control.serve_at(server.control, privileges.ids(server.user), sock)

    async def _drop_root(self) -> None:
        user = self.farm.config.server.user
        privileges.own_folder(self.farm.config.server.state_dir, user)
        if privileges.will_become(user):
            await asyncio.to_thread(privileges.read_ahead)
        privileges.become(user)

    async def stop(self) -> None:
        self._source.serving = False
        service.notify(service.STOPPING)
        await self._control.stop()
        await self._end()
        if self._predecessor:
            self._predecessor.close()

    async def _end(self) -> None:
        """Answer what has been read, and close everything."""
        await self._overriding.stop()
        await self._notifier.stop()
        await self._stat_file.stop()
        await self._pages.stop()
        await self._feed.stop()
        await self._recording.stop()
        await self._answerer.stop()
        self._sockets.close()

    async def reload(self) -> None:
        """Raises LbdnsError, and then everything is as it was. No query, report, score or counter is lost."""
        async with self._changing:
            service.notify(service.reloading())
            try:
                await self._reload()
            finally:
                service.notify(service.READY)

    async def _reload(self) -> None:
        # In a thread: a large zone takes seconds to read, in which queries are answered
        loaded = await asyncio.to_thread(load, self._path, self._options, self._loaded.serials)
        self._refuse_what_needs_a_restart(loaded.farm)
        before = self.farm.config
        # Nothing is closed before everything is open: without root, port 53 could not be had back
        change = self._sockets.prepare(loaded.farm.config.server.listen, self._answerer.workers)
        try:
            await self._pages.serve_at(loaded.farm.config.web)
            await self._feed.reload(loaded.farm, loaded.keys)
        except BaseException:
            change.drop()
            await self._pages.serve_at(before.web)
            raise
        self._loaded = loaded
        self.farm = self._source.farm = loaded.farm
        await self._answer_on(change)
        self._overriding.use(loaded.farm)
        await self._take_orders()
        self._serve_secondaries()
        await self._record()
        for warning in loaded.farm.warnings:
            log.warning(warning)

    def _refuse_what_needs_a_restart(self, farm: Farm) -> None:
        now, new = self.farm.config, farm.config
        if bool(new.collector.connect) != bool(now.collector.connect):
            raise ConfigError(f"{self._path}: [collector] connect: following instead of receiving needs a restart")
        for key in ("user", "workers", "plane"):
            if getattr(new.server, key) != getattr(now.server, key):
                raise ConfigError(f"{self._path}: [server] {key}: changing it needs a restart")

    def _lose(self, why: str) -> None:
        """There is no going on; a service manager starts us again."""
        self.failure = why
        self.over.set()

    # Orders. A new one is a line in ``commands`` and a method

    async def _order_reload(self, order: Order) -> Mapping[str, Any]:
        await program.reload(self)
        return {"message": f"{self._path}: in force: {len(self.farm.zones)} zones, {len(self.farm.pools)} pools"}

    async def _order_explain(self, order: Order) -> Mapping[str, Any]:
        name = order.words.get("name")
        if not isinstance(name, str):
            raise LbdnsError('explain: name: is missing; say such as {"command": "explain", "name": "best.hobbit"}')
        return {"explanation": await self._source.explain(name)}

    async def _order_take_over(self, order: Order) -> None:
        if self._changing.locked():
            raise LbdnsError("take-over: a reload, or another take-over, is under way; try again")
        async with self._changing, self._overriding.handing_over:
            self.events.tell("server", "a new process asks for our place", logger=log.name)
            try:
                await takeover.hand_over(order, self)
            except LbdnsError as error:
                what = f"take-over: {error}; this server goes on"
                self.events.tell("server", what, level=logging.ERROR, logger=log.name)
            finally:
                if self._finished:
                    self.events.tell("server", "a new process has taken our place", logger=log.name)
                    self.over.set()

    # The place that is handed over, in the sense of ``lbdns.server.orders.takeover``

    def hold(self) -> Mapping[str, Any]:
        planner = self._answerer.planner
        return takeover.held(planner.snapshot, planner.overrides, self._secrets)

    def sockets(self) -> Sequence[Given]:
        """Duplicates of all that is listened on."""
        given = [Given(g.purpose, g.asked, g.sock.dup()) for g in self._sockets.given()]
        if self._collector:
            given += [Given("reports", *place) for place in self._collector.duplicates()]
        if web := self._pages.duplicate():
            given.append(Given("web", *web))
        if control := self._control.duplicate():
            given.append(Given("control", Endpoint(str(control[0]), 0), control[1]))
        return given

    def pause_reports(self) -> Any:
        if self._collector is None:
            return None
        self._collector.pause()
        return self._collector.table.state(time.monotonic())

    def resume_reports(self) -> None:
        if self._collector:
            self._collector.resume()

    async def finish(self) -> Figures:
        self._finished = True
        self._source.serving = False
        await self._control.stop_listening(leave=True)
        await self._end()
        return self._source.figures()


def _by_place(given: Sequence[Given], purpose: str, wanted: Sequence[Endpoint | None]) -> dict[Endpoint, socket.socket]:
    """The sockets given for a purpose, by the addresses of the configuration that they are at."""
    return {
        endpoint: sock
        for taken, sock in ((g.asked, g.sock) for g in given if g.purpose == purpose)
        for endpoint in wanted
        if endpoint and same_place(taken, endpoint)
    }


def _web_socket(wanted: Endpoint | None, given: Sequence[Given]) -> socket.socket | None:
    """The socket for pages: the one that is given, if it is where we want it, or a new one. Raises ListenError."""
    taken = None
    for g in given:
        if g.purpose == "web" and g.asked == wanted:
            taken = g.sock
        elif g.purpose == "web":
            g.sock.close()
    return taken or (open_socket(wanted) if wanted else None)


def _control_socket(wanted: Path, given: Sequence[Given]) -> socket.socket | None:
    """The socket for orders that is given, if it is where we want it: its folder may be closed to us by now."""
    taken = None
    for g in given:
        if g.purpose == "control" and g.asked.host == str(wanted):
            taken = g.sock
        elif g.purpose == "control":
            g.sock.close()
    return taken
