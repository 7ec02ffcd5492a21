"""The connection gate: accepts HTTP connections from permitted addresses, and closes those past their deadlines."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from aiohttp.web_protocol import RequestHandler

from lbdns.process.background_task import end_task
from lbdns_collector.web.access_control import AccessControl, client_network, is_this_machine
from lbdns_collector.web.connection_limits import ConnectionLimits
from lbdns_collector.web.gated_connection import GatedConnection
from lbdns_collector.web.http_responses import Refusal
from lbdns_collector.web.render_scheduler import QUIET_SLICE, RenderScheduler

SWEEP_PERIOD: Final = 0.5  # seconds between two checks of the deadlines
BATCH: Final = 32  # connections accepted without a pause; accepting one takes about 40 us
BUSY_BATCH: Final = 2  # the same, while there are many queries
PAUSE: Final = 0.001  # seconds between two batches
NO_MORE: Final = 1.0  # seconds before the next attempt if no descriptor or memory is left
THIS_MACHINE: Final = "this machine"


class ConnectionGate:
    """Accepts connections on one listening socket. ``limits`` decides which of them may stay."""

    def __init__(self, sock: socket.socket, access: AccessControl, scheduler: RenderScheduler) -> None:
        self.limits = ConnectionLimits(access, scheduler)
        self._sock = sock
        self._access, self._scheduler = access, scheduler
        self._accepting: asyncio.Task[None] | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    def start(self, new_handler: Callable[[], RequestHandler]) -> None:
        """Start accepting connections. ``new_handler`` makes the aiohttp handler of a connection."""
        self._accepting = asyncio.get_running_loop().create_task(self._accept(new_handler))
        self._sweep()

    async def stop(self) -> None:
        """Stop accepting connections, and close those that no aiohttp handler serves."""
        await end_task(self._accepting)
        self._accepting = None
        if self._sweeper:
            self._sweeper.cancel()
        self.limits.close_waiting()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in self.limits.connections():
            connection.check_deadline(loop.time())
        self._sweeper = loop.call_later(SWEEP_PERIOD, self._sweep)

    async def _accept(self, new_handler: Callable[[], RequestHandler]) -> None:
        loop = asyncio.get_running_loop()
        accepted = 0
        while True:
            try:
                sock, peer = await loop.sock_accept(self._sock)
            except OSError as error:
                self._access.warn(f"a connection that cannot be accepted: {error.strerror}")
                await asyncio.sleep(NO_MORE)
                continue
            try:
                await self._admit(sock, peer[0], new_handler)
            except OSError:
                sock.close()  # the client has already disconnected
            except BaseException:
                sock.close()
                raise
            accepted += 1
            if accepted >= (BATCH if self._scheduler.slice == QUIET_SLICE else BUSY_BATCH):
                await asyncio.sleep(PAUSE)  # the others wait in the kernel, where they cost nothing
                accepted = 0

    async def _admit(self, sock: socket.socket, address: str, new_handler: Callable[[], RequestHandler]) -> None:
        is_local = is_this_machine(address, sock.getsockname()[0])
        if not (is_local or self._access.is_allowed(address)):
            # Best effort: the client's request has not been read, so the reset may overtake the response
            self._access.refuse("network", address)
            sock.send(Refusal.of_network(address).response())
            sock.close()
            return
        client = self.limits.client(THIS_MACHINE if is_local else client_network(address), is_local)
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: GatedConnection(self.limits, client, address, new_handler), sock
        )
