"""The takeover protocol: a new process receives the sockets and the state of a running server, and then replaces it.

The new process connects to the control socket and sends ``{"command":"take-over"}``. The old server replies, and
then sends its sockets, snapshot, overrides and secrets. The new process starts, and both servers answer queries on the
same sockets.

After that, the new process sends two requests on the same connection:

"reports" makes the old server stop reading reports. The old server replies with its collector's state. New reports wait
in the sockets, which both processes hold.

"finish" makes the old server stop answering queries. The old server replies with its final counters. The new process
then reads reports and opens its web interface.

All messages after the reply to the take-over command are encoded with msgpack, because unpickling data from another
process would be unsafe.

If the connection breaks before the request "finish", the old server continues to run.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgpack

from lbdns.counting.answer_counters import AnswerCounters, read_counters
from lbdns.model.overrides import Overrides, read_override
from lbdns.model.shared_orders import SharedOrders, read_order_document
from lbdns.model.snapshot import Snapshot, read_reading, write_reading
from lbdns.server.control.control_socket import ControlCommand, send_line
from lbdns.server.workers.messages import HasDescriptor, MessageChannel
from lbdns.sockets.inherited_sockets import PURPOSES, InheritedSocket, adopt
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError

VERSION: Final = 2  # of this protocol; a server with another version must be restarted instead
PATIENCE: Final = 300.0  # s for the new process to start; zones of a million names take long
ANSWER: Final = 60.0  # s for the old process to reply; it waits for its workers
_MAX_LINE: Final = 65_536  # bytes of the reply to the command


class _TakeoverChannel(MessageChannel):
    """Exchanges take-over messages with the other process."""

    def __init__(self, sock: socket.socket) -> None:
        self._inbox: asyncio.Queue[tuple[bytes, list[int]] | None] = asyncio.Queue()
        super().__init__(sock, lambda *message: self._inbox.put_nowait(message), lambda: self._inbox.put_nowait(None))

    async def receive(self, patience: float) -> tuple[Any, list[int]]:
        """Return the next take-over message and its descriptors. Raises LbdnsError if no message arrives in time."""
        try:
            async with asyncio.timeout(patience):
                message = await self._inbox.get()
            if message is None:
                raise LbdnsError("the other process has ended")
            return msgpack.unpackb(message[0], strict_map_key=False), message[1]
        except TimeoutError:
            raise LbdnsError(f"the other process sent nothing for {patience:g} s") from None
        except ValueError:
            raise LbdnsError("the other process sent an invalid message") from None


class Successor:
    """The running server's connection to the new process. The caller must ``close`` this connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._channel = _TakeoverChannel(sock)
        self.close = self._channel.close

    @classmethod
    async def meet(cls, command: ControlCommand) -> Successor:
        """Reply to the take-over command. Raises LbdnsError if the sender is not permitted to take over."""
        if command.uid not in (0, os.geteuid()):
            raise LbdnsError("take-over: only root and the server's own user may request a take-over")
        await send_line(command.sock, {"ok": True})
        return cls(command.sock)

    def send_state(
        self,
        inherited: Sequence[InheritedSocket],
        snapshot: Snapshot,
        overrides: Overrides,
        orders: SharedOrders,
        secrets: Sequence[bytes],
        links: Mapping[str, HasDescriptor],
    ) -> None:
        """Send everything that the new process needs to start, and close the sockets in ``inherited``.

        ``orders`` contains the orders that servers share, and ``secrets`` contains the secrets for DNS cookies.
        ``links`` contains the links through which the kernel answers, by interface.
        """
        now = time.monotonic()
        state = {
            "version": VERSION,
            "sockets": [[each.purpose, each.asked.host, each.asked.port] for each in inherited],
            "readings": {name: write_reading(reading, now) for name, reading in snapshot.readings.items()},
            "overrides": [override.document() for override in overrides.items],
            "shared_orders": [order.document() for order in orders.orders.values()],
            "secrets": list(secrets),
            "xdp": list(links),
        }
        self._channel.send(msgpack.packb(state), [*(each.sock for each in inherited), *links.values()])
        for each in inherited:
            each.sock.close()

    async def wait_for(self, request: str) -> None:
        """Wait until the new process sends ``request``.

        Raises LbdnsError if a different message arrives, or if no message arrives in time.
        """
        received, _ = await self._channel.receive(PATIENCE)
        if received != request:
            raise LbdnsError(f"the other process sent {received!r} instead of {request!r}")

    def send_reports(self, state: Any) -> None:
        """Send the collector's ``state``, which is None if this server has no collector."""
        self._channel.send(msgpack.packb(state))

    async def finish(self, counters: AnswerCounters) -> None:
        """Send this server's final counters, and wait until the message has been sent."""
        self._channel.send(msgpack.packb(counters.state()))
        await self._channel.flush(ANSWER)


class Predecessor:
    """The new process's connection to the running server.

    ``inherited`` contains the running server's sockets, which both processes now share. ``links`` contains the
    descriptors of the links through which the kernel answers, by interface.
    """

    def __init__(
        self,
        path: Path,
        channel: _TakeoverChannel,
        inherited: Sequence[InheritedSocket],
        held: Mapping[str, Any],
        links: Mapping[str, int],
    ) -> None:
        now = time.monotonic()
        self._path, self._channel = path, channel
        self.inherited, self.links = inherited, links
        readings = {str(name): read_reading(value, now) for name, value in held["readings"].items()}
        self.snapshot = Snapshot(1, readings)
        self.overrides = Overrides(tuple(map(read_override, held["overrides"])))
        orders = map(read_order_document, held.get("shared_orders", ()))  # absent in older servers
        self.orders = SharedOrders({order.place: order for order in orders})
        self.secrets = tuple(map(bytes, held["secrets"]))

    @classmethod
    async def meet(cls, path: Path) -> Predecessor:
        """Send the take-over command to the server whose control socket is at ``path``. Raises LbdnsError."""
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
            return await cls._listen(path, _TakeoverChannel(sock))
        except BaseException as error:
            sock.close()
            if isinstance(error, OSError):
                why = error.strerror or "no answer"
                raise LbdnsError(f"--take-over: {path}: {why}. Is a server using this control socket?") from None
            if isinstance(error, (ValueError, KeyError, TypeError)):
                raise LbdnsError(
                    f"--take-over: {path}: the program that uses this socket is not lbdns, "
                    "or is an incompatible version"
                ) from None
            raise

    @classmethod
    async def _listen(cls, path: Path, channel: _TakeoverChannel) -> Predecessor:
        held, descriptors = await channel.receive(ANSWER)
        # The links are last. Servers of older versions send none
        interfaces = [str(name) for name in held.get("xdp", ())] if isinstance(held, dict) else []
        first = max(0, len(descriptors) - len(interfaces))
        links = dict(zip(interfaces, descriptors[first:], strict=False))
        sockets = [adopt(descriptor) for descriptor in descriptors[:first]]
        try:
            if held["version"] != VERSION:
                raise LbdnsError(
                    f"--take-over: {path}: the running server uses another protocol version; restart that server"
                )
            inherited = [
                InheritedSocket(str(purpose), Endpoint(str(host), int(port)), sock)
                for (purpose, host, port), sock in zip(held["sockets"], sockets, strict=True)
            ]
            if any(each.purpose not in PURPOSES for each in inherited):
                raise ValueError("a socket has an unknown purpose")
            return cls(path, channel, inherited, held, links)
        except BaseException:
            for sock in sockets:
                sock.close()
            for link in links.values():
                os.close(link)
            channel.close()
            raise

    async def reports(self) -> Any:
        """Stop the old server's collector and return its state, or None if there is no collector. Raises LbdnsError."""
        return await self._ask("reports")

    async def finish(self) -> AnswerCounters:
        """Make the old server answer the queries that it has read, and then stop.

        Return the old server's counters. Raises LbdnsError.
        """
        counters = await self._ask("finish")
        self._channel.close()
        try:
            return read_counters(counters)
        except ValueError as error:
            raise LbdnsError(f"--take-over: {self._path}: {error}") from None

    def close(self) -> None:
        """Close the connection. If ``finish`` has not been called, the old server continues to run."""
        self._channel.close()

    async def _ask(self, request: str) -> Any:
        self._channel.send(msgpack.packb(request))
        try:
            return (await self._channel.receive(ANSWER))[0]
        except LbdnsError as error:
            raise LbdnsError(f"--take-over: {self._path}: {error}") from None


async def _read_line(sock: socket.socket) -> bytes:
    """Return one line.

    The function reads nothing beyond the line, because descriptors arrive with the next bytes. Raises OSError.
    """
    line = b""
    while not line.endswith(b"\n") and len(line) < _MAX_LINE:
        data = await asyncio.get_running_loop().sock_recv(sock, 1)
        if not data:
            raise ConnectionResetError(0, "the server closed the connection")
        line += data
    return line
