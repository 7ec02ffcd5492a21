"""A new process takes the place of a running server: it receives the listening sockets and what is known, starts, and
only then has the old one end.

Over the control socket, after ``{"command": "take-over"}`` and its answer, the new process says words and the old one
answers each with a message (msgpack: what another process says is never unpickled)::

    (at once)  sockets, snapshot, overrides, secrets    the new one starts; both answer from the same sockets
    "reports"  the old one reads no more reports       reports wait in their socket, which both have
    "finish"   the old one ends; what it has counted   the new one reads reports and opens its pages

Whenever the connection breaks before "finish", the old server goes on as if nothing had happened.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgpack

from lbdns.endpoint import Endpoint
from lbdns.errors import LbdnsError
from lbdns.overrides import Overrides, read_override
from lbdns.server.figures import Figures, read_figures
from lbdns.server.net.given import PURPOSES, Given, adopt
from lbdns.server.orders.control import Order, send_line
from lbdns.server.workers.frames import Channel
from lbdns.snapshot import Reading, Snapshot
from lbdns_collector.table import read_reading, write_reading

VERSION: Final = 2  # of what is said; a server that says it otherwise has to be restarted
PATIENCE: Final = 300.0  # s for the new process to start: it reads zones of a million names, and may be slow
ANSWER: Final = 60.0  # s for the old process to answer: it waits for its workers
_MAX_LINE: Final = 65_536  # bytes of its first answer


class Place(Protocol):
    """What the old process hands over."""

    def hold(self) -> Mapping[str, Any]: ...
    def sockets(self) -> Sequence[Given]: ...
    def pause_reports(self) -> Any: ...
    def resume_reports(self) -> None: ...
    async def finish(self) -> Figures: ...


class _Talk:
    """Messages with the other process, one after another."""

    def __init__(self, sock: socket.socket) -> None:
        self._heard: asyncio.Queue[tuple[bytes, list[int]] | None] = asyncio.Queue()
        self._channel = Channel(
            sock, lambda *message: self._heard.put_nowait(message), lambda: self._heard.put_nowait(None)
        )

    def say(self, what: object, sockets: Sequence[socket.socket] = ()) -> None:
        self._channel.send(msgpack.packb(what), sockets)

    async def hear(self, patience: float) -> tuple[Any, list[int]]:
        """The next message. Raises LbdnsError when there is none."""
        try:
            async with asyncio.timeout(patience):
                message = await self._heard.get()
            if message is None:
                raise LbdnsError("the other process has ended")
            return msgpack.unpackb(message[0], strict_map_key=False), message[1]
        except TimeoutError:
            raise LbdnsError(f"the other process said nothing for {patience:g} s") from None
        except ValueError:
            raise LbdnsError("the other process said what can't be understood") from None

    async def end(self) -> None:
        """Close, after all has been sent that the other one still reads."""
        await self._channel.flush(ANSWER)
        self._channel.close()

    def close(self) -> None:
        self._channel.close()


async def hand_over(order: Order, place: Place) -> None:
    """The old process' side. Raises LbdnsError when the new one does not take our place in the end."""
    if order.uid not in (0, os.geteuid()):
        raise LbdnsError("take-over: only root or the user that this server runs as can take its place")
    await send_line(order.sock, {"ok": True})
    talk = _Talk(order.sock)
    try:
        given = place.sockets()
        listed = [[g.purpose, g.asked.host, g.asked.port] for g in given]
        talk.say({"version": VERSION, "sockets": listed, **place.hold()}, [g.sock for g in given])
        for g in given:
            g.sock.close()
        await _expect(talk, "reports")
        talk.say(place.pause_reports())
        try:
            await _expect(talk, "finish")
        except LbdnsError:
            place.resume_reports()
            raise
        talk.say((await place.finish()).state())
        await talk.end()
    finally:
        talk.close()


async def _expect(talk: _Talk, word: str) -> None:
    said, _ = await talk.hear(PATIENCE)
    if said != word:
        raise LbdnsError(f"the other process said {said!r} instead of {word!r}")


class Predecessor:
    """The running server, as the new process sees it. ``given`` are its sockets, ours now too."""

    def __init__(self, path: Path, talk: _Talk, given: Sequence[Given], held: Mapping[str, Any]) -> None:
        now = time.monotonic()
        self._path, self._talk = path, talk
        self.given = given
        readings = {str(name): read_reading(value, now) for name, value in held["readings"].items()}
        self.snapshot = Snapshot(1, readings)
        self.overrides = Overrides(tuple(map(read_override, held["overrides"])))
        self.secrets = tuple(map(bytes, held["secrets"]))

    @classmethod
    async def meet(cls, path: Path) -> Predecessor:
        """Ask the server that takes orders at ``path`` for its place. Raises LbdnsError."""
        loop = asyncio.get_running_loop()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            async with asyncio.timeout(ANSWER):
                await loop.sock_connect(sock, str(path))
                await loop.sock_sendall(sock, json.dumps({"command": "take-over"}).encode() + b"\n")
                answer = json.loads(await _read_line(sock))
            if not answer["ok"]:
                raise LbdnsError(f"--take-over: {path}: {answer['error']}")
            return await cls._listen(path, _Talk(sock))
        except BaseException as error:
            sock.close()
            if isinstance(error, OSError):
                why = error.strerror or "no answer"
                raise LbdnsError(f"--take-over: {path}: {why}. Is there a server that takes orders there?") from None
            if isinstance(error, (ValueError, KeyError, TypeError)):
                raise LbdnsError(f"--take-over: {path}: what answers there is no lbdns of this kind") from None
            raise

    @classmethod
    async def _listen(cls, path: Path, talk: _Talk) -> Predecessor:
        held, descriptors = await talk.hear(ANSWER)
        sockets = [adopt(descriptor) for descriptor in descriptors]
        try:
            if held["version"] != VERSION:
                raise LbdnsError(f"--take-over: {path}: the server there is of another kind; it has to be restarted")
            given = [
                Given(str(purpose), Endpoint(str(host), int(port)), sock)
                for (purpose, host, port), sock in zip(held["sockets"], sockets, strict=True)
            ]
            if any(g.purpose not in PURPOSES for g in given):
                raise ValueError("a socket for what is unknown")
            return cls(path, talk, given, held)
        except BaseException:
            for sock in sockets:
                sock.close()
            talk.close()
            raise

    async def reports(self) -> Any:
        """The state of its collector (None if it has none), which takes in nothing from now on. Raises LbdnsError."""
        return await self._ask("reports")

    async def finish(self) -> Figures:
        """Have it end: it answers what it has read. What it has counted in its life. Raises LbdnsError."""
        figures = await self._ask("finish")
        self._talk.close()
        try:
            return read_figures(figures)
        except ValueError as error:
            raise LbdnsError(f"--take-over: {self._path}: {error}") from None

    def close(self) -> None:
        """Leave it alone: it goes on."""
        self._talk.close()

    async def _ask(self, word: str) -> Any:
        self._talk.say(word)
        try:
            return (await self._talk.hear(ANSWER))[0]
        except LbdnsError as error:
            raise LbdnsError(f"--take-over: {self._path}: {error}") from None


async def _read_line(sock: socket.socket) -> bytes:
    """A line, and not a byte more: what follows has descriptors with it. Raises OSError."""
    line = b""
    while not line.endswith(b"\n") and len(line) < _MAX_LINE:
        data = await asyncio.get_running_loop().sock_recv(sock, 1)
        if not data:
            raise ConnectionResetError(0, "the server there closes the connection")
        line += data
    return line


def held(snapshot: Snapshot, overrides: Overrides, secrets: Sequence[bytes]) -> dict[str, Any]:
    """What a server knows, for its successor."""
    now = time.monotonic()
    readings: Mapping[str, Reading] = snapshot.readings
    return {
        "readings": {name: write_reading(reading, now) for name, reading in readings.items()},
        "overrides": [override.document() for override in overrides.items],
        "secrets": list(secrets),
    }
