"""The control socket: receives control commands and replies to them. Every message is a JSON object on one line.

For example, the reply to ``{"command":"reload"}`` is ``{"ok":true,...}`` or ``{"ok":false,"error":"..."}``. The socket
file's permissions determine which users may connect. The file has mode 0660 and belongs to the server's user and group.
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
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.process import privileges
from lbdns.process.apply_configuration import PreparedChange
from lbdns.process.background_tasks import end_task, end_tasks
from lbdns.server.control.command_pace import CommandPace
from lbdns.sockets.acceptor import Acceptor
from lbdns.text.suggestions import nearest
from lbdns_shared.errors import LbdnsError, ListenError

log = logging.getLogger("lbdns.control")

MODE: Final = 0o660
FOLDER_MODE: Final = 0o755
MAX_COMMAND: Final = 65_536  # bytes of a command
MAX_CLIENTS: Final = 32
PATIENCE: Final = 10.0  # s that a client may take to send a command or to read a reply
BACKLOG: Final = 256  # connections that wait to be accepted; connect(2) fails at once if there are more
ACCEPT_PAUSE: Final = 0.002  # seconds after each connection; a flood of connections must not delay queries
_SHOWN: Final = 40  # characters of an unknown command in an error
_PEER: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid


@dataclass(frozen=True, slots=True)
class ControlCommand:
    """A control command received from a client."""

    fields: Mapping[str, Any]  # the JSON object
    sock: socket.socket  # its connection, for handlers that send more than JSON
    uid: int  # the user id of the client's process


#: Carries out a command and returns the fields of the reply, to which "ok": true is added. None means that the handler
#: has sent everything itself; the connection then ends. If it raises LbdnsError, the reply has "ok": false and the
#: error.
CommandHandler = Callable[[ControlCommand], Awaitable[Mapping[str, Any] | None]]


class _Client:
    """A client's connection; records whether one of its commands is being executed."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.executing = False
        self.task: asyncio.Task[None] | None = None


class ControlSocket:
    """Listens for control commands and passes them to their handlers.

    Commands start one after another, with pauses, so that no client can delay DNS answers. If there are already
    MAX_CLIENTS connections, a new client replaces the oldest client without a command in progress.
    """

    def __init__(self, commands: Mapping[str, CommandHandler]) -> None:
        self._commands = commands
        self._sock: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._clients: dict[_Client, None] = {}  # the oldest first
        self._pace = CommandPace()
        self._file: tuple[Path, int] | None = None  # path and inode of the socket
        self._path: Path | None = None  # the path at which it listens, or failed to listen

    def duplicate(self) -> tuple[Path, socket.socket] | None:
        """Return the listening socket's path and a duplicate for another process, or None if no socket is open."""
        return (self._file[0], self._sock.dup()) if self._file and self._sock else None

    async def start(self, path: Path, owner: tuple[int, int], sock: socket.socket | None = None) -> None:
        """Accept commands on ``sock``, which must already be listening at ``path``; if ``sock`` is None, open a socket.

        A new socket's file belongs to ``owner`` (user ID and group ID). If the socket cannot be opened, only a
        warning is logged, because the server can answer queries without a control socket.
        """
        self._path = path
        try:
            self._listen(path, sock or _bind(path, owner))
        except OSError as error:
            why = error.strerror or str(error)
            log.warning("[server] control: %s: %s. Commands such as 'lbdns reload' are not available", path, why)

    async def prepare(self, new: CheckedConfiguration) -> PreparedChange:
        """If ``new`` specifies a new path, listen there. Commands sent to the new path wait until the change commits.

        Raises ListenError if the new path is not available.
        """
        server = new.farm.config.server
        path = server.control
        if path == self._path:
            return PreparedChange("control socket")
        try:
            sock = _bind(path, privileges.ids(server.user))
        except OSError as error:
            raise ListenError(f"[server] control: {path}: {error.strerror or error}") from None
        old = self._listening()

        def commit() -> None:
            self._path = path
            self._listen(path, sock)

        async def finish() -> None:
            await _close(*old)

        async def rollback() -> None:
            await _close(None, sock, (path, _inode(path)))

        return PreparedChange("control socket", commit, finish, rollback)

    async def stop_listening(self, leave: bool = False) -> None:
        """Stop accepting connections; commands in progress continue.

        If ``leave`` is true, the socket's file is not removed, because another process listens on the same socket.
        """
        task, sock, file = self._listening()
        self._path = self._accepting = self._sock = self._file = None
        await _close(task, sock, None if leave else file)

    def _listen(self, path: Path, sock: socket.socket) -> None:
        self._sock, self._file = sock, (path, _inode(path))
        self._accepting = asyncio.get_running_loop().create_task(self._accept(sock))

    def _listening(self) -> tuple[asyncio.Task[None] | None, socket.socket | None, tuple[Path, int] | None]:
        return self._accepting, self._sock, self._file

    async def stop(self) -> None:
        await self.stop_listening()
        current = asyncio.current_task()
        tasks = [client.task for client in self._clients if client.task and client.task is not current]
        await end_tasks(tasks)

    async def _accept(self, sock: socket.socket) -> None:
        with contextlib.closing(Acceptor(sock, "control socket")) as acceptor:
            while True:
                self._admit(await acceptor.accept())
                await asyncio.sleep(ACCEPT_PAUSE)

    def _admit(self, sock: socket.socket) -> None:
        if len(self._clients) >= MAX_CLIENTS:
            oldest = next((client for client in self._clients if not client.executing), None)
            if oldest is None:
                with sock, contextlib.suppress(OSError):
                    sock.send(_line(_failed("too many commands are in progress; retry later")))
                return
            self._end(oldest)
        client = _Client(sock)
        self._clients[client] = None
        client.task = asyncio.get_running_loop().create_task(self._serve(client))
        client.task.add_done_callback(lambda _: self._clients.pop(client, None))

    def _end(self, client: _Client) -> None:
        del self._clients[client]
        if client.task:
            client.task.cancel()

    async def _serve(self, client: _Client) -> None:
        """Execute one client's commands, one after another, until the client disconnects."""
        with client.sock as sock:
            uid = _PEER.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1]
            with contextlib.suppress(OSError, TimeoutError):
                async for line in _lines(sock):
                    await self._pace.turn()
                    client.executing = True
                    answer = await self._answer(line, sock, uid)
                    if answer is None:
                        return
                    await self._pace.turn()  # a long reply takes milliseconds to encode
                    client.executing = False
                    await send_line(sock, answer)

    async def _answer(self, line: bytes, sock: socket.socket, uid: int) -> dict[str, Any] | None:
        try:
            fields = json.loads(line)
            if not isinstance(fields, dict):
                raise ValueError("this line is not a JSON object")
        except (ValueError, RecursionError) as error:  # json raises ValueError also for bytes that are not UTF-8
            return _failed(f'a line must be one JSON object, such as {{"command": "reload"}}: {error}')
        name = fields.get("command")
        command = self._commands.get(name) if isinstance(name, str) else None
        if command is None:
            return _failed(f"unknown command {str(name)[:_SHOWN]!r}{nearest(str(name)[:_SHOWN], self._commands)}")
        try:
            answer = await command(ControlCommand(fields, sock, uid))
        except LbdnsError as error:
            return _failed(str(error))
        except (OSError, TimeoutError):
            raise
        except Exception:
            log.exception("command %r failed", name)
            return _failed("the command failed; see the server's log for the reason")
        return None if answer is None else {"ok": True, **answer}


async def _close(
    accepting: asyncio.Task[None] | None, sock: socket.socket | None, file: tuple[Path, int] | None
) -> None:
    await end_task(accepting)
    if sock:
        sock.close()
    if file:
        path, inode = file
        with contextlib.suppress(OSError):  # in root's folder the file stays until it is replaced
            if inode and _inode(path) == inode:  # otherwise, a successor has replaced it
                path.unlink()


async def _lines(sock: socket.socket) -> AsyncIterator[bytes]:
    """Yield the lines that a client sends. An overlong line is truncated, and is the last line yielded."""
    buffer = b""
    while True:
        async with asyncio.timeout(PATIENCE):
            while b"\n" not in buffer and len(buffer) <= MAX_COMMAND:
                data = await asyncio.get_running_loop().sock_recv(sock, MAX_COMMAND)
                if not data:
                    return
                buffer += data
        line, _, buffer = buffer.partition(b"\n")
        yield line[:MAX_COMMAND]
        if len(line) > MAX_COMMAND:
            return


async def send_line(sock: socket.socket, answer: Mapping[str, Any]) -> None:
    """Send one object as a line of JSON. Raises OSError, or TimeoutError if the client does not read the line."""
    async with asyncio.timeout(PATIENCE):
        await asyncio.get_running_loop().sock_sendall(sock, _line(answer))


def _line(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer).encode() + b"\n"


def _failed(error: str) -> dict[str, Any]:
    return {"ok": False, "error": error}


def _inode(path: Path) -> int:
    """Return a file's inode number, or 0 if the file is not accessible (for example, without root privileges)."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _bind(path: Path, owner: tuple[int, int]) -> socket.socket:
    """Return a socket listening at ``path`` and, if permitted, owned by ``owner`` (user, group). Raises OSError."""
    if not path.parent.exists():
        path.parent.mkdir(FOLDER_MODE, parents=True)
        _give(path.parent, owner)
    if path.exists() or path.is_symlink():
        _must_be_dead(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Bind next to ``path``, then rename: the mode is never wrong, and an old socket is replaced without a gap
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.unlink(missing_ok=True)
        sock.setblocking(False)
        try:
            sock.bind(str(fresh))
        except OSError as error:
            if error.errno is None:  # raised by Python, not by the kernel
                raise OSError(0, "the path is too long for a socket; the maximum is 103 bytes") from None
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


def _must_be_dead(path: Path) -> None:
    """Raise OSError unless ``path`` is a socket on which no process listens."""
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise OSError(0, "the existing file is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        try:
            sock.connect(str(path))
        except ConnectionRefusedError:
            return
        except BlockingIOError:
            pass  # its backlog is full: a server is running
    raise OSError(0, "another server is listening on this path; each server needs its own path")


def _give(path: Path, owner: tuple[int, int]) -> None:
    with contextlib.suppress(PermissionError):
        if owner != (os.geteuid(), os.getegid()):
            os.chown(path, *owner)
