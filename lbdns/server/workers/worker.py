"""A worker: a process that answers queries, told by the main process from what and on which sockets."""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from lbdns.answering.table import Table
from lbdns.overrides import NO_OVERRIDES, Overrides
from lbdns.server.alone import Alone
from lbdns.server.loading import new_table
from lbdns.server.net.given import adopt
from lbdns.server.workers.frames import Channel
from lbdns.server.workers.news import read_news
from lbdns.server.workers.sharing import COSTS, PAUSE, write_answers
from lbdns.snapshot import EMPTY, Snapshot

log = logging.getLogger("lbdns.server")

GAP: Final = 0.25  # s from one sending of figures to the next while they change, or longer where that takes long
FAREWELL: Final = 5.0  # s that the main process is given to hear the last figures


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a worker is to do from now on. ``wanted`` are the numbers of its sockets; those of ``fresh`` come along."""

    generation: int
    farm: bytes  # pickled once for all workers; empty: as before
    secrets: tuple[bytes, ...]  # of cookies
    servers: int  # how many workers there are
    wanted: tuple[int, ...]
    fresh: tuple[int, ...]


#: What else the main process says: news of members (see ``news``), the overrides, answers of the other workers by pool
#: and policy, a number to send figures with, a number to explain a pool's owner name with, or that it is time to end.
Order = Assignment | tuple[str, Any]


def run(number: int, sock: socket.socket) -> None:
    """Work until the main process says to end, or has ended."""
    asyncio.run(_Worker(number, sock).run())


class _Worker:
    def __init__(self, number: int, sock: socket.socket) -> None:
        self._number, self._sock = number, sock
        self._orders: asyncio.Queue[tuple[Order, Sequence[int]] | None] = asyncio.Queue()
        self._snapshot: Snapshot = EMPTY
        self._overrides: Overrides = NO_OVERRIDES
        self._alone: Alone | None = None
        self._timer: asyncio.TimerHandle | None = None  # of figures ...
        self._told: object = None  # ... and by what it is seen that they changed
        self._sharing: asyncio.TimerHandle | None = None  # of answers, the same
        self._shared: object = Counter[tuple[str, str]]()

    async def run(self) -> None:
        self._channel = Channel(self._sock, self._take, lambda: self._orders.put_nowait(None))
        while (order := await self._orders.get()) is not None:
            if not await self._carry_out(*order):
                break
        for timer in (self._timer, self._sharing):
            if timer:
                timer.cancel()
        if self._alone:
            await self._alone.stop()
            self._send_figures(0)
        await self._channel.flush(FAREWELL)
        self._channel.close()

    def _take(self, payload: bytes, descriptors: list[int]) -> None:
        self._orders.put_nowait((pickle.loads(payload), descriptors))

    async def _carry_out(self, order: Order, descriptors: Sequence[int]) -> bool:
        """False when it was the last one."""
        if isinstance(order, Assignment):
            await self._use(order, descriptors)
            return True
        what, value = order
        if what == "news":
            self._snapshot = read_news(self._snapshot.readings, value)
            if self._alone:
                self._alone.deliver(self._snapshot)
        elif what == "overrides":
            self._overrides = value
            if self._alone:
                self._alone.override(value)
        elif what == "elsewhere":
            assert self._alone is not None, "it comes after the first assignment"
            self._alone.hear(value)
        elif what == "figures":
            self._send_figures(value)
        elif what == "explain":
            self._tell("explained", value[0], self._explain(*value[1:]))
        return what != "end"

    async def _use(self, order: Assignment, descriptors: Sequence[int]) -> None:
        fresh = {number: adopt(descriptor) for number, descriptor in zip(order.fresh, descriptors, strict=True)}
        # In a thread: a large zone takes seconds, in which queries are answered
        table = await asyncio.to_thread(_table, order.farm) if order.farm else None
        if self._alone is None:
            assert table is not None, "the first assignment has a farm"
            self._alone = Alone(table, order.secrets, order.servers, self._number)
            self._alone.override(self._overrides)
            self._alone.deliver(self._snapshot)
        await self._alone.go_on(table or self._alone.responder.table, order.secrets, fresh, set(order.wanted))
        self._tell("using", order.generation)
        if self._timer is None:
            self._report()
            self._share()

    def _explain(self, name: str, owner: str) -> Mapping[str, Any] | None:
        """What is handed out for an owner name of the pool ``name`` and why; None if there is none here just now."""
        pools = self._alone.responder.table.farm.pools if self._alone else ()
        pool = next((pool for pool in pools if pool.name == name and owner in pool.config.names), None)
        return self._alone.explain_now(pool, owner) if pool and self._alone else None

    def _report(self) -> None:
        """Send figures when there are new ones, and look again later."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert self._alone is not None
        now = (self._alone.durations.queries, self._alone.listeners.counters())
        if now != self._told:
            self._told = now
            self._send_figures(0)
        self._timer = loop.call_later(max(GAP, COSTS * (loop.time() - began)), self._report)

    def _share(self) -> None:
        """Tell how many answers were given, if there are more. Not by figures: these are of every member, and take long
        where there are ten thousand."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert self._alone is not None
        answers = self._alone.planner.answers()
        if answers != self._shared:
            self._shared = answers
            self._tell("answers", 0, write_answers(answers))
        self._sharing = loop.call_later(max(PAUSE, COSTS * (loop.time() - began)), self._share)

    def _send_figures(self, request: int) -> None:
        """``request`` is the number of whoever asked, 0 if nobody did."""
        if self._alone:
            self._tell("figures", request, self._alone.figures().state())

    def _tell(self, *words: object) -> None:
        # Not pickled: who faces the network must not have the main process run what it likes
        self._channel.send(msgpack.packb(words))


def _table(farm: bytes) -> Table:
    return new_table(pickle.loads(farm))
