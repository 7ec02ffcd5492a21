"""The nursery: a small process without threads or an event loop, whose one job is to fork workers when it is told to.

It is forked before the main process has threads, which don't survive a fork, and after everything that workers need is
imported: once root is given up, the interpreter's files may be closed to us. It lives as long as the main process does.
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

from lbdns.server.process import privileges
from lbdns.server.process.prctl import name_process
from lbdns.server.workers.frames import FrameReader, pieces, receive, send

log = logging.getLogger("lbdns.server")

FAREWELL: Final = 10.0  # s that workers are given to end when the main process has
#: A terminal's Ctrl-C and a service manager's stop reach every process of the group, but only the main one knows what
#: is to be done then; the others end when it has ended.
_FOR_MAIN: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FIRST: Final = 3  # descriptor behind standard error
#: What a worker does with its end of the connection; never returns into the nursery's frames.
Work = Callable[[int, socket.socket], None]


@dataclass(frozen=True, slots=True)
class Nursery:
    """The main process' end."""

    pid: int
    sock: socket.socket


def open_nursery(user: str, work: Work) -> Nursery:
    """Fork the nursery, which drops to ``user`` at once. To be called while this process has one thread."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        _never_return(lambda: _tend(theirs, user, work))
    theirs.close()
    return Nursery(pid, ours)


def _never_return(work: Callable[[], None]) -> NoReturn:
    """End this process after ``work``, whatever happens: the frames above belong to the parent."""
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        log.exception("process %d ends", os.getpid())
    finally:
        logging.shutdown()
        os._exit(status)


def _tend(sock: socket.socket, user: str, work: Work) -> None:
    for number in _FOR_MAIN:
        signal.signal(number, signal.SIG_IGN)
    name_process("lbdns-nursery")
    # Nothing else that the main process has open: a socket is closed only when everybody has closed it
    os.closerange(_FIRST, sock.fileno())
    os.closerange(sock.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    privileges.become(user)
    _Tending(sock, work).run()


class _Tending:
    """The nursery itself, in its own process."""

    def __init__(self, sock: socket.socket, work: Work) -> None:
        self._sock, self._work = sock, work
        self._reader = FrameReader()
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, tuple[int, int]] = {}  # pidfd -> number of the worker, pid

    def run(self) -> None:
        """Until the main process ends."""
        self._selector.register(self._sock, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fd in self._children:
                    self._bury(key.fd)
                elif not self._read():
                    self._await_all()
                    return

    def _read(self) -> bool:
        """Do what the main process asks for; False when it has ended."""
        try:
            data, descriptors = receive(self._sock)
        except ConnectionResetError:
            return False
        for payload, (descriptor,) in self._reader.feed(data, descriptors):
            self._fork(msgpack.unpackb(payload), descriptor)
        return bool(data)

    def _fork(self, number: int, descriptor: int) -> None:
        """Fork worker ``number`` with its end of a connection."""
        with socket.socket(fileno=descriptor) as theirs:
            try:
                pid = os.fork()
            except OSError as error:
                self._tell("unborn", number, 0, error.errno or 0)
                return
            if not pid:
                self._forget_all()
                name_process(f"lbdns-worker-{number}")
                _never_return(lambda: self._work(number, theirs))
        pidfd = os.pidfd_open(pid)
        self._children[pidfd] = (number, pid)
        self._selector.register(pidfd, selectors.EVENT_READ)
        self._tell("born", number, pid, 0)

    def _forget_all(self) -> None:
        """In a worker: what belongs to the nursery alone."""
        self._sock.close()
        self._selector.close()
        self._reader.close()  # the next worker's connection may have come together with this one's
        for pidfd in self._children:
            os.close(pidfd)

    def _bury(self, pidfd: int) -> None:
        number, pid = self._children.pop(pidfd)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(pid, 0)
        self._tell("ended", number, pid, os.waitstatus_to_exitcode(status))

    def _tell(self, *words: str | int) -> None:
        # The main process may have gone: then reading says so
        with contextlib.suppress(OSError):
            for data, descriptors in pieces(msgpack.packb(words), ()):
                send(self._sock, data, descriptors)

    def _await_all(self) -> None:
        """Workers see by themselves that the main process is gone; one that hangs is killed."""
        self._selector.unregister(self._sock)
        end = time.monotonic() + FAREWELL
        while self._children and (left := end - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                self._bury(key.fd)
        for _, pid in self._children.values():
            os.kill(pid, signal.SIGKILL)
