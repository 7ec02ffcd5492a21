"""The main process's view of the fork servers: one forks workers; the other forks a replacement if the first ends or
hangs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgpack

from lbdns.server.workers.fork_server import SHUTDOWN_PATIENCE, ForkServer
from lbdns.server.workers.heartbeat import HUNG, PERIOD, Heartbeat
from lbdns.server.workers.messages import MessageChannel
from lbdns_shared.errors import LbdnsError

_STEP: Final = 0.005  # s between checks whether processes have ended
_HEARTBEAT: Final = msgpack.packb(("heartbeat", 0, 0))

#: Called with a keyword ("started", "not started" or "ended"), the launch, the process ID, and an errno or exit status.
WorkerNotice = Callable[[str, int, int, int], None]


class NoForkServerError(LbdnsError):
    """Raised if no fork server is left."""


class _Connection:
    """The main process's connection to one fork server."""

    def __init__(self, pid: int, channel: MessageChannel) -> None:
        self.pid = pid  # 0 until the other fork server reports it
        self.channel = channel
        self.heartbeat = Heartbeat()


class ForkServerPair:
    """Passes requests to the first fork server.

    If a fork server ends or hangs, the other fork server forks a replacement. ``report`` records an event that requires
    an operator's attention.
    """

    def __init__(
        self, fork_servers: Sequence[ForkServer], on_notice: WorkerNotice, report: Callable[[str], None]
    ) -> None:
        self._on_notice, self._report = on_notice, report
        self._launches = itertools.count(1)
        self._connections: list[_Connection] = []  # the first one forks
        self._forked: dict[int, _Connection] = {}  # fork servers that another one has forked, by launch
        self._ended: dict[int, Callable[[int], None]] = {}  # process ID -> what to call with the exit status
        for fork_server in fork_servers:
            self._connect(fork_server.pid, fork_server.sock)

    def fork_worker(self, number: int, theirs: socket.socket) -> int:
        """Request a process for worker ``number``, with ``theirs`` as its end of the connection.

        Return the launch number. The caller may close ``theirs``. Raises NoForkServerError.
        """
        if not self._connections:
            raise NoForkServerError("the processes that start workers have ended")
        return self._request("worker", number, theirs)

    def beat(self) -> None:
        """Request a reply from each fork server, replace those that have ended or hung, and reap processes that have
        ended.

        Call this method once in each heartbeat period.
        """
        for connection in tuple(self._connections):
            if connection.heartbeat.is_hung:
                kill(connection.pid)
                connection.channel.close()
                self._lose(connection, f"has not replied for {HUNG * PERIOD:g} s")
                continue
            connection.heartbeat.beat()
            if not connection.channel.is_behind:
                connection.channel.send(_HEARTBEAT)
        if len(self._connections) == 1:
            with contextlib.suppress(OSError):  # no free descriptor: tried again with the next heartbeat
                self._replace()
        self._reap()

    def reap_later(self, pid: int, on_end: Callable[[int], None]) -> None:
        """Call ``on_end`` with the exit status of a process that has ended, unless a running fork server reaps the
        process."""
        if pid:
            self._ended[pid] = on_end

    async def stop(self) -> None:
        """Wait until the fork servers and all workers have ended and their sockets are closed."""
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.channel.close()
        pids = {connection.pid for connection in connections if connection.pid}
        await asyncio.to_thread(_wait_for, pids | self._ended.keys(), SHUTDOWN_PATIENCE + 1.0)

    def _connect(self, pid: int, sock: socket.socket) -> _Connection:
        def receive(payload: bytes, _: list[int]) -> None:
            self._receive(connection, payload)

        def end() -> None:
            self._lose(connection, "has ended")

        connection = _Connection(pid, MessageChannel(sock, receive, end))
        self._connections.append(connection)
        return connection

    def _request(self, what: str, number: int, theirs: socket.socket) -> int:
        launch = next(self._launches)
        self._connections[0].channel.send(msgpack.packb((what, number, launch)), (theirs,))
        return launch

    def _replace(self) -> None:
        """Make the remaining fork server fork a new fork server. Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            launch = self._request("fork server", 0, theirs)
        self._forked[launch] = self._connect(0, ours)

    def _lose(self, connection: _Connection, how: str) -> None:
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        self.reap_later(connection.pid, lambda _: None)
        if not connection.pid:
            return  # it was never there; tried again with the next heartbeat
        if self._connections:
            then = "a second process takes over this task"
        else:
            then = "dead workers can't be replaced until the server is restarted"
        self._report(f"the process that starts workers (process {connection.pid}) {how}; {then}")

    def _receive(self, connection: _Connection, payload: bytes) -> None:
        what, launch, pid, status = msgpack.unpackb(payload)
        if what == "heartbeat":
            connection.heartbeat.replied()
        elif launch not in self._forked:
            self._on_notice(what, launch, pid, status)
        elif what == "started":
            self._forked[launch].pid = pid
        else:
            del self._forked[launch]

    def _reap(self) -> None:
        for pid, on_end in tuple(self._ended.items()):
            try:
                ended, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                # A fork server reaps it. If that one was killed but has not ended yet, this process will adopt it
                if not os.path.exists(f"/proc/{pid}"):
                    del self._ended[pid]
                continue
            if ended:
                del self._ended[pid]
                on_end(os.waitstatus_to_exitcode(status))


def kill(pid: int) -> None:
    """Send SIGKILL to a process, unless it has ended or ``pid`` is 0."""
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _wait_for(pids: Collection[int], patience: float) -> None:
    """Wait up to ``patience`` seconds for processes to end, and then kill all remaining processes."""
    end = time.monotonic() + patience
    left = set(pids)
    while left and time.monotonic() < end:
        left = {pid for pid in left if _is_alive(pid)}
        time.sleep(_STEP if left else 0)
    for pid in left:
        kill(pid)


def _is_alive(pid: int) -> bool:
    """Return whether a process is alive. If it has ended and is a child of this process, reap it."""
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return os.path.exists(f"/proc/{pid}")
