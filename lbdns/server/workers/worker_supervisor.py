"""Starts, tracks and replaces the worker processes; runs in the main process."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgpack

from lbdns.events.event_log import EventLog
from lbdns.model.snapshot import EMPTY_SNAPSHOT, Reading, Snapshot
from lbdns.server.dns_service import AnsweringConfiguration
from lbdns.server.workers.fork_server import SHUTDOWN_PATIENCE, ForkServer
from lbdns.server.workers.messages import MessageChannel
from lbdns.server.workers.snapshot_delta import write_snapshot_delta
from lbdns.server.workers.worker import Assignment, WorkerMessage

log = logging.getLogger("lbdns.server")

MIN_HEALTHY_LIFE: Final = 5.0  # s; a process that dies later than this is replaced at once
RESPAWN_PAUSES: Final = (0.0, 0.05, 0.1, 0.2, 0.5)  # s before each replacement of a worker that keeps dying


class WorkerProcess:
    """Tracks the current process of worker ``number`` and the messages sent to that process."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0  # 0 until the fork server reports it
        self.channel: MessageChannel | None = None  # None: there is no process, or the process is about to end
        self.ready = 0  # the generation of the newest assignment it has prepared
        self.active = 0  # the generation of the assignment that it answers from
        self.failures = 0  # processes that ended while they prepared the current change
        self.replied = 0  # the last request for counters that it has replied to
        self._readings: Mapping[str, Reading] = EMPTY_SNAPSHOT.readings  # the readings that the process has received
        self._sockets: frozenset[int] = frozenset()  # the numbers of the sockets it answers on
        self._next_sockets: frozenset[int] = frozenset()  # the same after the next switch

    @property
    def is_behind(self) -> bool:
        """Whether the process is missing or has not yet read everything that was sent to it."""
        return self.channel is None or self.channel.is_behind

    def connect(self, channel: MessageChannel) -> None:
        """Use ``channel`` to communicate with a new process, which has received nothing yet."""
        self.channel, self.pid = channel, 0
        self._readings, self._sockets = EMPTY_SNAPSHOT.readings, frozenset()

    def disconnect(self) -> None:
        """Record that the process has ended or will end soon."""
        self.channel = None
        self.ready = self.active = 0

    def send(self, message: WorkerMessage, sockets: tuple[socket.socket, ...] = ()) -> None:
        """Send a message with duplicates of ``sockets``. Does nothing if the worker has no process."""
        if self.channel:
            self.channel.send(pickle.dumps(message, pickle.HIGHEST_PROTOCOL), sockets)

    def send_assignment(self, generation: int, farm: bytes, new: AnsweringConfiguration) -> None:
        """Make the process prepare ``new``. ``farm`` is the pickled farm, or empty if the process already has it."""
        sockets = new.sockets[self.number]
        fresh = tuple(sockets.keys() - self._sockets)
        assignment = Assignment(generation, farm, new.secrets, len(new.sockets), tuple(sockets), fresh)
        self._next_sockets = frozenset(sockets)
        self.send(assignment, tuple(sockets[number] for number in fresh))

    def send_switch(self, generation: int) -> None:
        """Make the process switch to the assignment that was sent last."""
        self._sockets = self._next_sockets
        self.send(("switch", generation))

    def send_snapshot(self, snapshot: Snapshot, written: dict[int, bytes]) -> None:
        """Send the changes since the snapshot that was sent last.

        Does nothing if the process is behind, because it later receives all changes in one message. ``written`` caches
        each delta under the identity of the readings that it starts from, because most workers need the same delta.
        """
        if self.is_behind or self._readings is snapshot.readings:
            return
        delta = written.get(id(self._readings))
        if delta is None:
            delta = written[id(self._readings)] = write_snapshot_delta(self._readings, snapshot)
        self._readings = snapshot.readings
        self.send(("snapshot", delta))


class WorkerOwner(Protocol):
    """Handles the events of worker processes. The supervisor calls these methods in the event loop."""

    def started(self, worker: WorkerProcess) -> None:
        """Called when a new process has been connected. The owner must send it everything that it needs."""

    def received(self, worker: WorkerProcess, payload: bytes) -> None:
        """Called when a message has arrived from the process."""

    def drained(self, worker: WorkerProcess) -> None:
        """Called when the process has read everything that was sent to it."""

    def ended(self, worker: WorkerProcess) -> None:
        """Called when a process has ended or will end soon. ``started`` is called next, unless the server stops."""


class WorkerSupervisor:
    """Keeps one process running for each worker, from ``start`` to ``stop``. Replaces processes that die.

    ``on_loss`` is called with the reason when it becomes impossible to replace a worker.
    """

    def __init__(
        self, fork_server: ForkServer, owner: WorkerOwner, on_loss: Callable[[str], None], events: EventLog
    ) -> None:
        self._owner, self._on_loss, self._events = owner, on_loss, events
        self._fork_server_pid = fork_server.pid
        self._fork_server: MessageChannel | None = MessageChannel(
            fork_server.sock, self._receive_notice, self._lose_fork_server
        )
        self._workers: dict[int, WorkerProcess] = {}  # by number
        self._started: dict[int, float] = {}  # monotonic seconds, by worker
        self._deaths: Counter[int] = Counter()  # deaths in quick succession, by worker
        self._timers: dict[int, asyncio.TimerHandle] = {}  # respawns, by worker
        self._stopping = False
        self.restarts = 0  # so far

    def start(self, worker: WorkerProcess) -> None:
        """Make the fork server start a process for ``worker``, and connect to that process."""
        if self._stopping:
            return
        if self._fork_server is None:
            self._on_loss("a worker has ended, and the process that starts workers has ended too")
            return
        ours, theirs = socket.socketpair()
        self._fork_server.send(msgpack.packb(worker.number), (theirs,))
        theirs.close()
        self._workers[worker.number] = worker
        self._started[worker.number] = time.monotonic()
        worker.connect(
            MessageChannel(
                ours,
                lambda payload, _: self._owner.received(worker, payload),
                lambda: self._respawn(worker),
                lambda: self._owner.drained(worker),
            )
        )
        self._owner.started(worker)

    def kill(self, worker: WorkerProcess) -> None:
        """Kill the process of ``worker``, if it has one, and replace it."""
        if worker.channel and worker.pid:
            os.kill(worker.pid, signal.SIGKILL)
            worker.channel.close()
            self._respawn(worker)

    def begin_stop(self) -> None:
        """Start no further processes."""
        self._stopping = True
        for timer in self._timers.values():
            timer.cancel()

    async def stop(self) -> None:
        """Wait until the fork server and all workers have ended. Their sockets are then closed too."""
        if self._fork_server:
            self._fork_server.close()
        await asyncio.to_thread(_wait_for, self._fork_server_pid, SHUTDOWN_PATIENCE + 1.0)

    def report(self, what: str) -> None:
        """Record an event that requires an operator's attention."""
        self._events.record("worker", what, level=logging.ERROR, logger=log.name)

    def _respawn(self, worker: WorkerProcess) -> None:
        number = worker.number
        worker.disconnect()
        self._owner.ended(worker)
        if self._stopping:
            return
        soon = time.monotonic() - self._started[number] < MIN_HEALTHY_LIFE
        self._deaths[number] = self._deaths[number] + 1 if soon else 1
        self.restarts += 1
        pause = RESPAWN_PAUSES[min(self._deaths[number], len(RESPAWN_PAUSES)) - 1]
        self._timers[number] = asyncio.get_running_loop().call_later(pause, self.start, worker)

    def _lose_fork_server(self) -> None:
        self._fork_server = None
        if not self._stopping:
            what = "the process that starts workers has ended; workers that die can't be replaced until a restart"
            self.report(what)

    def _receive_notice(self, payload: bytes, _: list[int]) -> None:
        what, number, pid, status = msgpack.unpackb(payload)
        if what == "started":
            self._workers[number].pid = pid
            log.debug("worker %d is process %d", number, pid)
        elif what == "not started":
            self.report(f"worker {number} can't be started: {os.strerror(status)}; the server will try again")
        elif not self._stopping:
            how = f"was ended by {_signal_name(-status)}" if status < 0 else f"ended with status {status}"
            self.report(f"worker {number} (process {pid}) {how}; a new process replaces it")


def _wait_for(pid: int, patience: float) -> None:
    """Wait up to ``patience`` seconds for a child process to end."""
    end = time.monotonic() + patience
    try:
        while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < end:
            time.sleep(0.005)
    except ChildProcessError:
        pass


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
