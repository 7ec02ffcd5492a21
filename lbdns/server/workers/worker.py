"""A worker process: receives configurations, sockets and snapshots from the main process, and answers queries.

The main process sends pickled messages: an ``Assignment``, or a tuple of a keyword and a value::

    Assignment              build the answer table, then reply "ready"
    "switch", generation    answer from the prepared assignment, then reply "active"
    "discard", generation   drop the prepared assignment
    "snapshot", delta       see ``snapshot_delta``
    "overrides", Overrides
    "others", OtherAnswers  the answers of another DNS server
    "other_answers", counts of the answers of other workers, by pool and policy
    "counters", request     reply with "counters" and the number of the request (0 in counters sent without a request)
    "explain", (request, pool, owner name)    reply with "explain", the request, and the explanation
    "upcoming", (request, pool)    reply with "upcoming", the request, and the pool's next answers
    "heartbeat", None       reply with "heartbeat", and why this worker does not answer (empty if it does)
    "end", None             answer what has been read, then exit

Workers reply in msgpack. Workers never use pickle, because a process exposed to the network must not be able to execute
code in the main process.
"""

from __future__ import annotations

import asyncio
import gc
import pickle
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from lbdns.answering.answer_table import AnswerTable
from lbdns.model.other_answers import OtherAnswers
from lbdns.model.overrides import NO_OVERRIDES, Overrides
from lbdns.model.snapshot import EMPTY_SNAPSHOT, Snapshot
from lbdns.process.duty_cycle import DutyCycle
from lbdns.process.garbage_collection import tune_collections
from lbdns.server.local_answerer import LocalAnswerer
from lbdns.server.server_configuration import new_table
from lbdns.server.workers.messages import MessageChannel
from lbdns.server.workers.snapshot_delta import read_snapshot_delta
from lbdns.server.workers.worker_counters import SHARING, write_answers
from lbdns.sockets.inherited_sockets import adopt

COUNTING: Final = DutyCycle(50.0, shortest=0.25)  # between messages with counters, while these change
LAST_COUNTERS_PATIENCE: Final = 5.0  # s for the main process to read the last counters


@dataclass(frozen=True, slots=True)
class Assignment:
    """A configuration that is sent to one worker.

    The descriptors of the ``fresh`` sockets are sent with the message.
    """

    generation: int
    farm: bytes  # pickled once for all workers; empty: the farm has not changed
    secrets: tuple[bytes, ...]  # for DNS cookies
    servers: int  # the number of workers
    wanted: tuple[int, ...]  # the numbers of all sockets to answer on
    fresh: tuple[int, ...]  # the numbers of sockets that the worker does not have yet


WorkerMessage = Assignment | tuple[str, Any]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """An assignment whose answer table has been built."""

    assignment: Assignment
    table: AnswerTable | None  # None: the farm has not changed
    fresh: Mapping[int, socket.socket]


def run(number: int, sock: socket.socket) -> None:
    """Run worker ``number`` until the main process stops the worker or exits."""
    tune_collections()
    asyncio.run(_Worker(number, sock).run())


class _Worker:
    def __init__(self, number: int, sock: socket.socket) -> None:
        self._number, self._sock = number, sock
        self._inbox: asyncio.Queue[tuple[WorkerMessage, Sequence[int]] | BaseException | None] = asyncio.Queue()
        self._snapshot: Snapshot = EMPTY_SNAPSHOT
        self._overrides: Overrides = NO_OVERRIDES
        self._answerer: LocalAnswerer | None = None  # None until the first switch
        self._preparing: asyncio.Task[_Prepared] | None = None
        self._reporting: list[asyncio.Task[None]] = []  # from the first switch to the end
        self._counters_mark: object = None  # of the last counters sent; there are new ones if the current mark differs
        self._answers_sent: object = Counter[tuple[str, str]]()

    async def run(self) -> None:
        self._channel = MessageChannel(self._sock, self._receive, lambda: self._inbox.put_nowait(None))
        while (message := await self._inbox.get()) is not None:
            if isinstance(message, BaseException):
                raise message
            if not await self._handle(*message):
                break
            await asyncio.sleep(0)  # queries and heartbeats before the next snapshot
        for task in self._reporting:
            task.cancel()
        if self._answerer:
            await self._answerer.stop()
            self._send_counters(0)
        await self._channel.flush(LAST_COUNTERS_PATIENCE)
        self._channel.close()

    def _receive(self, payload: bytes, descriptors: list[int]) -> None:
        message = pickle.loads(payload)
        if isinstance(message, tuple) and message[0] == "heartbeat":
            # At once, since other messages may wait for a table. The event loop that replies also answers queries.
            self._reply("heartbeat", 0, self._answerer.fault if self._answerer else "")
        else:
            self._inbox.put_nowait((message, descriptors))

    async def _handle(self, message: WorkerMessage, descriptors: Sequence[int]) -> bool:
        """Handle a message. Return False if the worker must exit afterwards."""
        if isinstance(message, Assignment):
            # In a task, so that snapshots and overrides still take effect while a large table is built
            self._preparing = asyncio.get_running_loop().create_task(self._prepare(message, descriptors))
            self._preparing.add_done_callback(self._raise_failure)
            return True
        what, value = message
        if what == "switch":
            await self._switch(value)
        elif what == "discard":
            self._discard()
        elif what == "snapshot":
            self._deliver(read_snapshot_delta(self._snapshot.readings, value))
        elif what == "overrides":
            self._overrides = value
            if self._answerer:
                self._answerer.override(value)
        elif what in ("others", "other_answers"):
            self._count(value)
        elif what == "counters":
            self._send_counters(value)
        elif what in ("explain", "upcoming"):
            request, *named = value
            self._reply(what, request, self._explain(*named) if what == "explain" else self._upcoming(*named))
        return what != "end"

    def _count(self, value: OtherAnswers | Mapping[tuple[str, str], int]) -> None:
        """Count the answers of another server, or of this server's other workers."""
        if isinstance(value, OtherAnswers):
            if self._answerer:
                self._answerer.count_others(value)
            return
        assert self._answerer is not None, (
            "a worker must switch to an assignment before it receives other workers' answers"
        )
        self._answerer.planner.count_elsewhere(value)

    async def _prepare(self, assignment: Assignment, descriptors: Sequence[int]) -> _Prepared:
        fresh = {number: adopt(descriptor) for number, descriptor in zip(assignment.fresh, descriptors, strict=True)}
        # In a thread, so that queries are answered during the seconds that a large zone takes
        table = await asyncio.to_thread(_build_table, assignment.farm) if assignment.farm else None
        if table and self._answerer:
            await self._answerer.warm_up(table, assignment.secrets)
        self._reply("ready", assignment.generation)
        return _Prepared(assignment, table, fresh)

    def _raise_failure(self, preparing: asyncio.Task[_Prepared]) -> None:
        if not preparing.cancelled() and (error := preparing.exception()):
            self._inbox.put_nowait(error)

    async def _switch(self, generation: int) -> None:
        assert self._preparing is not None, "an assignment comes first"
        prepared, self._preparing = await self._preparing, None
        assignment = prepared.assignment
        assert assignment.generation == generation, "a worker switches only to the newest assignment"
        if self._answerer is None:
            assert prepared.table is not None, "the first assignment must contain a farm"
            self._answerer = LocalAnswerer(prepared.table, assignment.secrets, assignment.servers, self._number)
            self._answerer.override(self._overrides)
            self._answerer.deliver(self._snapshot)
        table = prepared.table or self._answerer.responder.table
        change = self._answerer.prepare_change(table, assignment.secrets, prepared.fresh, set(assignment.wanted))
        change.commit()
        await change.finish()
        self._reply("active", generation)
        if not self._reporting:
            loop = asyncio.get_running_loop()
            self._reporting = [
                loop.create_task(_repeat(self._send_new_counters, COUNTING)),
                loop.create_task(_repeat(self._send_new_answers, SHARING)),
            ]

    def _discard(self) -> None:
        if self._preparing:
            self._preparing.add_done_callback(_close_fresh_sockets)
            self._preparing = None

    def _deliver(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        if self._answerer:
            self._answerer.deliver(snapshot)

    def _explain(self, name: str, owner: str) -> Mapping[str, Any] | None:
        """Explain the answers for ``owner`` in pool ``name``. Return None if this worker does not serve that name."""
        pools = self._answerer.responder.table.farm.pools if self._answerer else ()
        pool = next((pool for pool in pools if pool.name == name and owner in pool.config.names), None)
        return self._answerer.explain_now(pool, owner) if pool and self._answerer else None

    def _upcoming(self, name: str) -> Mapping[str, Any]:
        """Return the next answers for pool ``name``, or an empty mapping if this worker does not serve the pool."""
        pools = self._answerer.responder.table.farm.pools if self._answerer else ()
        pool = next((pool for pool in pools if pool.name == name), None)
        return self._answerer.upcoming(pool) if pool and self._answerer else {}

    def _send_new_counters(self) -> None:
        assert self._answerer is not None
        if self._channel.is_behind:  # the main process is stopped: later counters include these
            return
        mark = (self._answerer.durations.queries, self._answerer.listeners.counters())
        if mark != self._counters_mark:
            self._counters_mark = mark
            self._send_counters(0)

    def _send_new_answers(self) -> None:
        # Not taken from the counters, which take too long to send this often if there are ten thousand members
        assert self._answerer is not None
        if self._channel.is_behind:
            return
        answers = self._answerer.planner.answers()
        if answers != self._answers_sent:
            self._answers_sent = answers
            self._reply("answers", 0, write_answers(answers))

    def _send_counters(self, request: int) -> None:
        if self._answerer:
            self._reply("counters", request, self._answerer.counters().state())

    def _reply(self, *values: object) -> None:
        self._channel.send(msgpack.packb(values))


async def _repeat(send: Callable[[], None], duty_cycle: DutyCycle) -> None:
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        send()
        await asyncio.sleep(duty_cycle.pause_after(loop.time() - began))


def _build_table(farm: bytes) -> AnswerTable:
    # Without garbage collection, which would stop this process for up to a second while 300,000 names are read, and
    # take most of the time. Nothing read here is garbage, and new_table exempts it from later collections.
    gc.disable()
    try:
        return new_table(pickle.loads(farm))
    finally:
        gc.enable()


def _close_fresh_sockets(preparing: asyncio.Task[_Prepared]) -> None:
    if not preparing.cancelled() and not preparing.exception():
        for sock in preparing.result().fresh.values():
            sock.close()
