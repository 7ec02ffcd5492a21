"""The fork server: a small process that forks workers for the main process and has no threads or event loop.

The main process first imports everything that workers need, then forks the fork servers, and only then starts threads,
because threads do not survive a fork. Later imports may fail, because the interpreter's files may be unreadable after
root privileges have been dropped. For the same reasons, only a fork server can fork another fork server. Two fork
servers run, so that either can replace the other. A fork server runs until the main process ends.

The main process sends messages in msgpack, and the fork server replies::

    ("worker", number, launch) and a socket   forks a worker       "started" or "not started"; later "ended"
    ("fork server", 0, launch) and a socket   forks a fork server  "started" or "not started"; later "ended"
    ("heartbeat", 0, 0)                       -                    "heartbeat"

A reply consists of a keyword, the launch number (0 for heartbeats), the process ID, and an errno or exit status.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

import msgpack

from lbdns.process import privileges
from lbdns.process.prctl import adopt_orphans, name_process
from lbdns.server.workers.messages import MessageReader, receive_piece, send_piece, split_message

log = logging.getLogger("lbdns.server")

SHUTDOWN_PATIENCE: Final = 10.0  # s for the workers to end after the main process has ended
#: Ctrl-C in a terminal and a service manager's stop signal reach every process of the group, but only the main process
#: acts on them; the others end after it.
_FOR_MAIN: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FIRST: Final = 3  # the first descriptor after standard error
#: Runs a worker on its end of the connection.
WorkerMain = Callable[[int, socket.socket], None]


@dataclass(frozen=True, slots=True)
class ForkServer:
    """The process ID of a fork server, and the main process's connection to it."""

    pid: int
    sock: socket.socket


def start_fork_servers(user: str, work: WorkerMain) -> tuple[ForkServer, ForkServer]:
    """Create two fork servers, which immediately switch to the account ``user``. The calling process must have only one
    thread.

    If a fork server ends later, its workers become children of the calling process.
    """
    adopt_orphans()
    return _start_fork_server(user, work), _start_fork_server(user, work)


def _start_fork_server(user: str, work: WorkerMain) -> ForkServer:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        _never_return(lambda: _run_fork_server(theirs, user, work))
    theirs.close()
    return ForkServer(pid, ours)


def _never_return(work: Callable[[], None]) -> NoReturn:
    """Run ``work``, and always end this process afterwards, because the calling functions belong to the parent."""
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        log.exception("process %d failed", os.getpid())
    finally:
        logging.shutdown()
        os._exit(status)


def _run_fork_server(sock: socket.socket, user: str, work: WorkerMain) -> None:
    for number in _FOR_MAIN:
        signal.signal(number, signal.SIG_IGN)
    name_process("lbdns-forker")
    # Sockets of the main process must not stay open here: a socket is closed only when every process has closed it
    os.closerange(_FIRST, sock.fileno())
    os.closerange(sock.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    privileges.become(user)
    _ForkServerProcess(sock, work).run()


class _ForkServerProcess:
    def __init__(self, sock: socket.socket, work: WorkerMain) -> None:
        self._sock, self._work = sock, work
        self._reader = MessageReader()
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, tuple[int, int]] = {}  # pidfd -> launch, pid

    def run(self) -> None:
        """Fork and reap workers until the main process ends, or until a message lacks the socket that belongs to it."""
        self._selector.register(self._sock, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fd in self._children:
                    self._reap(key.fd)
                    continue
                try:
                    if not self._read():
                        return self._wait_for_workers()
                except ValueError as error:  # the kernel drops descriptors that exceed the limit
                    log.error("fork server: %s; check the limit on open files", error)
                    return None

    def _read(self) -> bool:
        """Read requests from the main process; return False if the main process has ended."""
        try:
            data, descriptors = receive_piece(self._sock)
        except ConnectionResetError:
            return False
        for payload, attached in self._reader.feed(data, descriptors):
            what, number, launch = msgpack.unpackb(payload)
            if what == "heartbeat":
                self._notify("heartbeat", 0, 0, 0)
                continue
            (descriptor,) = attached
            try:
                self._fork(what, number, launch, descriptor)
            except OSError as error:
                self._notify("not started", launch, 0, error.errno or 0)
        return bool(data)

    def _fork(self, what: str, number: int, launch: int, descriptor: int) -> None:
        """Fork worker ``number`` or a fork server.

        ``descriptor`` is the new process's end of its connection to the main process. Raises OSError if forking fails.
        """
        with socket.socket(fileno=descriptor) as theirs:
            pid = os.fork()
            if not pid:
                _never_return(lambda: self._run_child(what, number, theirs))
        try:
            pidfd = os.pidfd_open(pid)
            self._selector.register(pidfd, selectors.EVENT_READ)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self._children[pidfd] = (launch, pid)
        self._notify("started", launch, pid, 0)

    def _run_child(self, what: str, number: int, theirs: socket.socket) -> None:
        self._close_all()
        if what == "worker":
            name_process(f"lbdns-worker-{number}")
            self._work(number, theirs)
        else:
            _ForkServerProcess(theirs, self._work).run()

    def _close_all(self) -> None:
        """In a new process, close everything that only the parent process uses."""
        self._sock.close()
        self._selector.close()
        self._reader.close()  # the next worker's connection may have arrived together with this one
        for pidfd in self._children:
            os.close(pidfd)

    def _reap(self, pidfd: int) -> None:
        launch, pid = self._children.pop(pidfd)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(pid, 0)
        self._notify("ended", launch, pid, os.waitstatus_to_exitcode(status))

    def _notify(self, *values: str | int) -> None:
        # If the main process has ended, the next read shows this
        with contextlib.suppress(OSError):
            for data, descriptors in split_message(msgpack.packb(values), ()):
                send_piece(self._sock, data, descriptors)

    def _wait_for_workers(self) -> None:
        """Wait for the workers to end after the main process has ended, and kill workers that hang."""
        self._selector.unregister(self._sock)
        end = time.monotonic() + SHUTDOWN_PATIENCE
        while self._children and (left := end - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                self._reap(key.fd)
        for _, pid in self._children.values():
            os.kill(pid, signal.SIGKILL)
