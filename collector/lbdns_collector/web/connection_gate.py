"""The connection gate: accepts HTTP connections from permitted addresses, and closes overdue connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final

from aiohttp.web_protocol import RequestHandler

from lbdns.process.background_tasks import end_task
from lbdns.sockets.acceptor import Acceptor
from lbdns.sockets.client_network import client_network
from lbdns_collector.web.access_control import AccessControl, is_this_machine
from lbdns_collector.web.connection_limits import ConnectionLimits
from lbdns_collector.web.gated_connection import GatedConnection
from lbdns_collector.web.refusal import Refusal
from lbdns_collector.web.render_scheduler import QUIET_SLICE, RenderScheduler

SWEEP_PERIOD: Final = 0.5  # seconds between two checks of the deadlines
BATCH: Final = 32  # connections accepted without a pause; accepting one takes about 40 us
BUSY_BATCH: Final = 8  # the same, while there are many queries
PAUSE: Final = 0.001  # seconds between two batches
THIS_MACHINE: Final = "this machine"


class ConnectionGate:
    """A gate that accepts connections on one listening socket. ``limits`` decides which connections may stay open."""

    def __init__(self, sock: socket.socket, access: AccessControl, scheduler: RenderScheduler) -> None:
        self.limits = ConnectionLimits(access, scheduler)
        self._sock = sock
        self._access, self._scheduler = access, scheduler
        self._accepting: asyncio.Task[None] | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    def start(self, new_handler: Callable[[], RequestHandler]) -> None:
        """Start accepting connections. ``new_handler`` creates the aiohttp handler of a connection."""
        self._accepting = asyncio.get_running_loop().create_task(self._accept(new_handler))
        self._sweep()

    async def stop(self) -> None:
        """Stop accepting connections, and close all connections without an aiohttp handler."""
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
        accepted = 0
        with contextlib.closing(Acceptor(self._sock, "web", self.limits.make_room)) as acceptor:
            while True:
                await self._admit(await acceptor.accept(), new_handler)
                accepted += 1
                if accepted >= (BATCH if self._scheduler.slice == QUIET_SLICE else BUSY_BATCH):
                    await asyncio.sleep(PAUSE)  # the others wait in the kernel, where they cost nothing
                    accepted = 0

    async def _admit(self, sock: socket.socket, new_handler: Callable[[], RequestHandler]) -> None:
        try:
            address, own = sock.getpeername()[0], sock.getsockname()[0]
            is_local = is_this_machine(address, own)
            if is_local or self._access.is_allowed(address):
                client = self.limits.client(THIS_MACHINE if is_local else client_network(address), is_local)
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: GatedConnection(self.limits, client, address, new_handler), sock
                )
                return
            # Best effort: the client's request has not been read, so the reset may overtake the response
            self._access.refuse("network", address)
            sock.send(Refusal.of_network(address).response())
        except OSError:
            pass  # the client has already disconnected
        except BaseException:
            sock.close()
            raise
        sock.close()
