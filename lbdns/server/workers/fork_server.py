"""The fork server: a small process that forks workers for the main process and has no threads or event loop.

The main process first imports everything that workers need, then forks the fork server, and only then starts threads,
because threads do not survive a fork. Later imports may fail: once root privileges are dropped, the interpreter's files
may be unreadable. The fork server runs until the main process ends.
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
from lbdns.process.prctl import name_process
from lbdns.server.workers.messages import MessageReader, receive_piece, send_piece, split_message

log = logging.getLogger("lbdns.server")

SHUTDOWN_PATIENCE: Final = 10.0  # s for the workers to end after the main process has ended
#: Ctrl-C in a terminal and the stop of a service manager reach every process of the group, but only the main process
#: acts on them; the others end after it.
_FOR_MAIN: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FIRST: Final = 3  # the first descriptor after standard error
#: Runs a worker on its end of the connection.
WorkerMain = Callable[[int, socket.socket], None]


@dataclass(frozen=True, slots=True)
class ForkServer:
    """The process ID of the fork server, and the main process's connection to it."""

    pid: int
    sock: socket.socket


def start_fork_server(user: str, work: WorkerMain) -> ForkServer:
    """Create the fork server, which immediately switches to ``user``. The calling process must have only one thread."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        _never_return(lambda: _run_fork_server(theirs, user, work))
    theirs.close()
    return ForkServer(pid, ours)


def _never_return(work: Callable[[], None]) -> NoReturn:
    """Run ``work``, and always end this process afterwards: the functions that called this one belong to the parent."""
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
        self._children: dict[int, tuple[int, int]] = {}  # pidfd -> number of the worker, pid

    def run(self) -> None:
        """Fork and reap workers until the main process ends."""
        self._selector.register(self._sock, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fd in self._children:
                    self._reap(key.fd)
                elif not self._read():
                    self._wait_for_workers()
                    return

    def _read(self) -> bool:
        """Read requests from the main process; return False if the main process has ended."""
        try:
            data, descriptors = receive_piece(self._sock)
        except ConnectionResetError:
            return False
        for payload, (descriptor,) in self._reader.feed(data, descriptors):
            self._fork(msgpack.unpackb(payload), descriptor)
        return bool(data)

    def _fork(self, number: int, descriptor: int) -> None:
        """Fork worker ``number``. ``descriptor`` is the worker's end of its connection to the main process."""
        with socket.socket(fileno=descriptor) as theirs:
            try:
                pid = os.fork()
            except OSError as error:
                self._notify("not started", number, 0, error.errno or 0)
                return
            if not pid:
                self._close_all()
                name_process(f"lbdns-worker-{number}")
                _never_return(lambda: self._work(number, theirs))
        pidfd = os.pidfd_open(pid)
        self._children[pidfd] = (number, pid)
        self._selector.register(pidfd, selectors.EVENT_READ)
        self._notify("started", number, pid, 0)

    def _close_all(self) -> None:
        """In a new worker, close everything that only the fork server uses."""
        self._sock.close()
        self._selector.close()
        self._reader.close()  # the next worker's connection may have arrived together with this one
        for pidfd in self._children:
            os.close(pidfd)

    def _reap(self, pidfd: int) -> None:
        number, pid = self._children.pop(pidfd)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(pid, 0)
        self._notify("ended", number, pid, os.waitstatus_to_exitcode(status))

    def _notify(self, *values: str | int) -> None:
        # If the main process has ended, the next read shows this
        with contextlib.suppress(OSError):
            for data, descriptors in split_message(msgpack.packb(values), ()):
                send_piece(self._sock, data, descriptors)

    def _wait_for_workers(self) -> None:
        """Wait for the workers to end after the main process, and kill workers that hang."""
        self._selector.unregister(self._sock)
        end = time.monotonic() + SHUTDOWN_PATIENCE
        while self._children and (left := end - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                self._reap(key.fd)
        for _, pid in self._children.values():
            os.kill(pid, signal.SIGKILL)
