"""The control socket: orders to a running server, each a JSON object on a line, answered by one on a line.

``{"command": "reload"}`` -> ``{"ok": true, ...}`` or ``{"ok": false, "error": "..."}``. Who may connect is decided by
the file: mode 0660, of the server's user and group.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import stat
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lbdns.errors import LbdnsError
from lbdns.toml_table import nearest

log = logging.getLogger("lbdns.control")

MODE: Final = 0o660
FOLDER_MODE: Final = 0o755
MAX_LINE: Final = 65_536  # bytes of an order
MAX_CLIENTS: Final = 32
PATIENCE: Final = 10.0  # s for a client to send a line, and to read one
BACKLOG: Final = 16
_SHOWN: Final = 40  # characters of a command that there isn't
_PEER: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid


@dataclass(frozen=True, slots=True)
class Order:
    """One order as it came in."""

    words: Mapping[str, Any]  # the JSON object
    sock: socket.socket  # the connection it came by, for what can't be said in JSON
    uid: int  # whose process is at its other end


#: Carries an order out; what it returns is answered, with "ok": true. None: it has said everything itself, and the
#: connection ends. Raises LbdnsError: answered with "ok": false.
Command = Callable[[Order], Awaitable[Mapping[str, Any] | None]]


class ControlSocket:
    """Takes orders at ``path``."""

    def __init__(self, commands: Mapping[str, Command]) -> None:
        self._commands = commands
        self._sock: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self._file: tuple[Path, int] | None = None  # path and inode of our socket
        self._wanted: Path | None = None

    def duplicate(self) -> tuple[Path, socket.socket] | None:
        """The listening socket for another process, with its path; None if there is none."""
        return (self._file[0], self._sock.dup()) if self._file and self._sock else None

    async def serve_at(self, path: Path, owner: tuple[int, int], sock: socket.socket | None = None) -> None:
        """Take orders there from now on, on ``sock`` if it listens there already.

        When that can't be, a warning is logged: queries are answered all the same.
        """
        if path == self._wanted:
            return
        await self.stop_listening()
        self._wanted = path
        try:
            self._sock = sock or _bind(path, owner)
            self._file = (path, _inode(path))
        except OSError as error:
            why = error.strerror or str(error)
            log.warning("[server] control: %s: %s. Orders such as 'lbdns reload' can't be taken", path, why)
            return
        self._accepting = asyncio.get_running_loop().create_task(self._accept(self._sock))

    async def stop_listening(self, leave: bool = False) -> None:
        """Take no new connections; orders that are being carried out go on. ``leave``: another process takes them."""
        self._wanted = None
        if self._accepting:
            self._accepting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._accepting
            self._accepting = None
        if self._sock:
            self._sock.close()
            self._sock = None
        if self._file:
            path, inode = self._file
            self._file = None
            if not leave:
                _remove(path, inode)

    async def stop(self) -> None:
        await self.stop_listening()
        current = asyncio.current_task()
        for client in self._clients - {current}:
            client.cancel()
        await asyncio.gather(*self._clients - {current}, return_exceptions=True)

    async def _accept(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(sock)
            except OSError as error:
                log.warning("a connection can't be taken: %s", error.strerror)
                await asyncio.sleep(1.0)
                continue
            client.setblocking(False)
            if len(self._clients) >= MAX_CLIENTS:
                client.close()
                continue
            task = loop.create_task(self._serve(client))
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def _serve(self, sock: socket.socket) -> None:
        """Carry out what one client orders, one after another, until it goes."""
        with sock:
            uid = _PEER.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1]
            lines = _Lines(sock)
            with contextlib.suppress(OSError, TimeoutError):
                while (line := await lines.next()) is not None:
                    answer = await self._answer(line, sock, uid)
                    if answer is None:
                        return
                    await send_line(sock, answer)
                    if not answer["ok"] and lines.too_long:
                        return

    async def _answer(self, line: bytes, sock: socket.socket, uid: int) -> dict[str, Any] | None:
        try:
            words = json.loads(line)
            if not isinstance(words, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError) as error:  # also of bytes that are not UTF-8
            return _failed(
                f'a line is one JSON object, such as {{"command": "reload"}}, of {MAX_LINE} bytes at most: {error}'
            )
        name = words.get("command")
        command = self._commands.get(name) if isinstance(name, str) else None
        if command is None:
            return _failed(f"command: there is no {str(name)[:_SHOWN]!r}{nearest(str(name)[:_SHOWN], self._commands)}")
        try:
            answer = await command(Order(words, sock, uid))
        except LbdnsError as error:
            return _failed(str(error))
        except (OSError, TimeoutError):
            raise
        except Exception:
            log.exception("order %r failed", name)
            return _failed("something went wrong here; the log of the server says what")
        return None if answer is None else {"ok": True, **answer}


class _Lines:
    """The lines that a client sends."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = bytearray()
        self.too_long = False

    async def next(self) -> bytes | None:
        """The next line, None at the end. A line that is too long is cut. Raises OSError and TimeoutError."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE):
            while b"\n" not in self._buffer and len(self._buffer) <= MAX_LINE:
                data = await loop.sock_recv(self._sock, MAX_LINE)
                if not data:
                    return None
                self._buffer += data
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        self.too_long = len(line) > MAX_LINE
        return line[:MAX_LINE]


async def send_line(sock: socket.socket, answer: Mapping[str, Any]) -> None:
    """Send one object. Raises OSError, and TimeoutError for a client that doesn't read."""
    async with asyncio.timeout(PATIENCE):
        await asyncio.get_running_loop().sock_sendall(sock, json.dumps(answer).encode() + b"\n")


def _failed(error: str) -> dict[str, Any]:
    return {"ok": False, "error": error}


def _inode(path: Path) -> int:
    """Of the file there; 0 if we may not look any more, since root is given up."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _bind(path: Path, owner: tuple[int, int]) -> socket.socket:
    """A listening socket at ``path``, of ``owner`` (user, group) if we may give it away. Raises OSError."""
    if not path.parent.exists():
        path.parent.mkdir(FOLDER_MODE, parents=True)
        _give(path.parent, owner)
    if path.exists() or path.is_symlink():
        _must_be_dead(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Beside it and moved there: it has its mode from the first moment on, and the old one is replaced, not missed
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.unlink(missing_ok=True)
        sock.setblocking(False)
        try:
            sock.bind(str(fresh))
        except OSError as error:
            if error.errno is None:  # Python's own
                raise OSError(0, "the path is too long for a socket: 107 bytes at most, and 4 are ours") from None
            raise
        fresh.chmod(MODE)
        _give(fresh, owner)
        sock.listen(BACKLOG)
        fresh.replace(path)
    except BaseException:
        sock.close()
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    return sock


def _remove(path: Path, inode: int) -> None:
    """Take our socket's file away, not our successor's. In root's folder it stays; the next one replaces it."""
    with contextlib.suppress(OSError):
        if inode and _inode(path) == inode:
            path.unlink()


def _must_be_dead(path: Path) -> None:
    """Raises OSError unless ``path`` is a socket that nobody listens at any more."""
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise OSError(0, "there is a file that is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        try:
            sock.connect(str(path))
        except ConnectionRefusedError:
            return
        except BlockingIOError:
            pass  # its backlog is full: somebody lives there
    raise OSError(0, "another server takes orders there; give each its own")


def _give(path: Path, owner: tuple[int, int]) -> None:
    with contextlib.suppress(PermissionError):
        if owner != (os.geteuid(), os.getegid()):
            os.chown(path, *owner)
