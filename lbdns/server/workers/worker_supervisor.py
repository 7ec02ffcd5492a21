"""Starts worker processes in the main process, and replaces processes that die or hang."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from lbdns.events.event_log import EventLog
from lbdns.server.workers.fork_server import ForkServer
from lbdns.server.workers.fork_server_pair import ForkServerPair, NoForkServerError, kill
from lbdns.server.workers.heartbeat import HUNG, PERIOD, STARVED
from lbdns.server.workers.messages import MessageChannel
from lbdns.server.workers.worker_process import WorkerProcess
from lbdns.sockets.descriptor_reserve import DescriptorReserve

log = logging.getLogger("lbdns.server")

MIN_HEALTHY_LIFE: Final = 5.0  # s; a process that dies later than this is replaced at once
RESPAWN_PAUSES: Final = (0.0, 0.05, 0.1, 0.2, 0.5)  # s before each replacement of a worker that keeps dying
#: s for a new process to begin to answer from the configuration in force, as for a reload
START_PATIENCE: Final = 30.0


class WorkerOwner(Protocol):
    """Handles the events of worker processes. The supervisor calls these methods in the event loop."""

    def started(self, worker: WorkerProcess) -> None:
        """Send a newly connected process everything that it needs."""

    def received(self, worker: WorkerProcess, payload: bytes) -> None:
        """Handle a message that has arrived from the worker's process."""

    def drained(self, worker: WorkerProcess) -> None:
        """Record that the process has read everything that was sent to it."""

    def ended(self, worker: WorkerProcess) -> None:
        """Handle the loss of a process that has ended or will end soon.

        Unless the server is stopping, the supervisor then starts another process and calls ``started``.
        """


class WorkerSupervisor:
    """Keeps one process running for each worker, from ``start`` to ``stop``. Replaces processes that die or hang.

    ``on_loss`` is called with a reason when workers can no longer be replaced.
    """

    def __init__(
        self, fork_servers: Sequence[ForkServer], owner: WorkerOwner, on_loss: Callable[[str], None], events: EventLog
    ) -> None:
        self._owner, self._on_loss, self._events = owner, on_loss, events
        self._fork_servers = ForkServerPair(fork_servers, self._receive_notice, self._report_unless_stopping)
        self._workers: dict[int, WorkerProcess] = {}  # by number
        self._started: dict[int, float] = {}  # monotonic seconds, by worker
        self._deaths: Counter[int] = Counter()  # deaths and failed starts in quick succession, by worker
        self._respawns: dict[int, asyncio.TimerHandle] = {}  # by worker
        self._reserve = DescriptorReserve()  # so that a worker can be replaced without any free descriptor
        self._launches: dict[int, WorkerProcess] = {}  # those whose end has not been reported
        self._stopping = False
        self._loop = asyncio.get_running_loop()
        self._beats = self._loop.call_later(PERIOD, self._beat)
        self.restarts = 0  # so far

    def start(self, worker: WorkerProcess) -> None:
        """Make a fork server start a process for ``worker``, and connect to that process.

        If starting a process fails, try again later.
        """
        if self._stopping:
            return
        self._workers[worker.number] = worker
        self._started[worker.number] = time.monotonic()
        self._reserve.release()
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            self._reserve.restore()
            self._fail_to_start(worker, error.errno or 0)
            self._start_later(worker)
            return
        with theirs:
            try:
                worker.launch = self._fork_servers.fork_worker(worker.number, theirs)
            except NoForkServerError as error:
                ours.close()
                self._on_loss(f"a worker has ended and cannot be replaced: {error}")
                return
        self._launches[worker.launch] = worker
        self._connect(worker, ours)
        self._reserve.restore()
        self._owner.started(worker)

    def _connect(self, worker: WorkerProcess, sock: socket.socket) -> None:
        def end() -> None:
            if worker.channel is channel:
                self._respawn(worker)

        channel = MessageChannel(
            sock, lambda payload, _: self._owner.received(worker, payload), end, lambda: self._owner.drained(worker)
        )
        worker.connect(channel)

    def replace(self, worker: WorkerProcess, why: str) -> None:
        """Kill the process of ``worker``, if it has one, and replace it.

        ``why`` is the rest of the message that begins with "worker 1 (process 2) ".
        """
        if worker.channel:
            self._launches.pop(worker.launch, None)
            self.report(f"worker {worker.number} (process {worker.pid}) {why}; a new process replaces it")
            kill(worker.pid)
            worker.channel.close()
            self._respawn(worker)

    def answers(self, worker: WorkerProcess) -> None:
        """Record that the process of ``worker`` has started to answer queries."""
        if worker.start_failure:
            worker.start_failure = ""
            self._record(f"worker {worker.number} has been started", logging.INFO)

    def begin_stop(self) -> None:
        """Start no more processes, and let the running processes end on their own."""
        self._stopping = True
        self._beats.cancel()
        for timer in self._respawns.values():
            timer.cancel()

    async def stop(self) -> None:
        """Wait until the fork servers and all workers have ended, and kill processes that hang."""
        for worker in self._workers.values():
            if worker.channel:
                kill(worker.pid)
                worker.channel.close()
        self._reserve.release()
        await self._fork_servers.stop()

    def report(self, what: str) -> None:
        """Record an event that requires an operator's attention."""
        self._record(what, logging.ERROR)

    def _record(self, what: str, level: int) -> None:
        self._events.record("worker", what, level=level, logger=log.name)

    def _report_unless_stopping(self, what: str) -> None:
        if not self._stopping:
            self.report(what)

    def _beat(self) -> None:
        self._fork_servers.beat()
        for worker in tuple(self._workers.values()):
            if worker.is_hung:
                periods = STARVED if worker.heartbeat.is_starved_too_long else HUNG
                self.replace(worker, f"has not replied for {periods * PERIOD:g} s")
            elif worker.unswitched * PERIOD > START_PATIENCE:
                self.replace(worker, f"did not begin to answer within {START_PATIENCE:g} s")
            else:
                worker.beat()
        self._beats = self._loop.call_later(PERIOD, self._beat)

    def _respawn(self, worker: WorkerProcess) -> None:
        worker.disconnect()
        self._fork_servers.reap_later(worker.pid, partial(self._report_end, worker.launch, worker.pid))
        self._owner.ended(worker)
        if not self._stopping:
            self.restarts += 1
            self._start_later(worker)

    def _start_later(self, worker: WorkerProcess) -> None:
        number = worker.number
        soon = time.monotonic() - self._started[number] < MIN_HEALTHY_LIFE
        self._deaths[number] = self._deaths[number] + 1 if soon else 1
        pause = RESPAWN_PAUSES[min(self._deaths[number], len(RESPAWN_PAUSES)) - 1]
        self._respawns[number] = self._loop.call_later(pause, self.start, worker)

    def _fail_to_start(self, worker: WorkerProcess, number: int) -> None:
        if not worker.start_failure:
            why = os.strerror(number)
            self.report(f"worker {worker.number} can't be started: {why}; the server tries again until it succeeds")
            worker.start_failure = why

    def _receive_notice(self, what: str, launch: int, pid: int, status: int) -> None:
        worker = self._launches.get(launch)
        if worker is None:
            return
        if what == "started":
            if worker.launch == launch:
                worker.pid = pid
            log.debug("worker %d is process %d", worker.number, pid)
        elif what == "not started":
            del self._launches[launch]
            self._fail_to_start(worker, status)
        else:
            self._report_end(launch, pid, status)

    def _report_end(self, launch: int, pid: int, status: int) -> None:
        worker = self._launches.pop(launch, None)
        if worker and not self._stopping:
            how = f"was ended by {_signal_name(-status)}" if status < 0 else f"ended with status {status}"
            self.report(f"worker {worker.number} (process {pid}) {how}; a new process replaces it")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
