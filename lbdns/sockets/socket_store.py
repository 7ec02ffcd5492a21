"""Stores listening sockets in the service manager (FDSTORE=1 of sd_notify(3)), so that they survive a restart.

While the program is restarted, queries and reports wait in the sockets. The service manager passes the sockets to the
new process with LISTEN_FDS, just like the sockets of a socket unit.
"""

from __future__ import annotations

import array
import asyncio
import logging
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lbdns_shared.service_manager import manager_address, notify

log = logging.getLogger("lbdns.server")

_PATIENCE: Final = 5.0  # s for the service manager to read its messages
_PAUSE: Final = 0.01  # s between attempts while the queue of the service manager's socket is full


def stored_name(sock: socket.socket) -> str:
    """Return the name under which a socket is stored. The socket has the same name in every process."""
    return f"lbdns-{os.fstat(sock.fileno()).st_ino}"


def forget(sock: socket.socket, environment: Mapping[str, str] = os.environ) -> None:
    """Make the service manager close its copy of a stored socket."""
    notify(_removal(stored_name(sock)), environment)


def _removal(name: str) -> str:
    return f"FDSTOREREMOVE=1\nFDNAME={name}"


class SocketStore:
    """Keeps the service manager's copies of this program's sockets up to date.

    The store is off unless the service manager stores descriptors, which the environment variable FDSTORE states
    (systemd.exec(5)).
    """

    def __init__(self, environment: Mapping[str, str] = os.environ, waiting: str = "queries") -> None:
        """``waiting`` is used in log messages: it names what may be lost in a restart without the store."""
        self._waiting = waiting
        self._address = manager_address(environment)
        room = environment.get("FDSTORE", "")
        self._room = int(room) if room.isdecimal() else 0
        self._stored: set[str] = set()

    @property
    def is_on(self) -> bool:
        return self._address is not None and self._room > 0

    def holds(self, sockets: Iterable[socket.socket]) -> None:
        """Record that the service manager holds ``sockets``, because this process has inherited them."""
        self._stored.update(map(stored_name, sockets))

    async def update(self, sockets: Sequence[socket.socket]) -> None:
        """Store every socket in ``sockets`` that is not stored yet, and remove all others from the store.

        If the service manager does not take a socket, the method logs a warning.
        """
        if not self.is_on:
            return
        if len(sockets) > self._room:
            log.warning(
                "the service manager stores %d of %d sockets; a restart may lose %s. "
                "Set FileDescriptorStoreMax=%d in the unit", self._room, len(sockets), self._waiting, len(sockets),
            )  # fmt: skip
        wanted = {stored_name(sock): sock for sock in sockets}
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.setblocking(False)
                async with asyncio.timeout(_PATIENCE):
                    for name in self._stored - wanted.keys():
                        await self._tell(manager, _removal(name))
                        self._stored.discard(name)
                    for name in [name for name in wanted if name not in self._stored]:
                        # FDPOLL=0: only this program decides when a socket leaves the store
                        await self._tell(manager, f"FDSTORE=1\nFDNAME={name}\nFDPOLL=0", wanted[name])
                        self._stored.add(name)
        except OSError as error:  # TimeoutError is one
            why = error.strerror or "it does not read the messages sent to it"
            self._warn(why)

    async def update_and_close(self, duplicates: Iterable[socket.socket]) -> None:
        """Update the store with ``duplicates``, and then close them. Iterating over ``duplicates`` may raise OSError.

        If descriptors are scarce, the method logs a warning.
        """
        if not self.is_on:
            return
        found: list[socket.socket] = []
        try:
            found.extend(duplicates)
            await self.update(found)
        except OSError as error:
            self._warn(f"they cannot be duplicated: {error.strerror}")
        finally:
            for sock in found:
                sock.close()

    def _warn(self, why: str) -> None:
        log.warning("the service manager does not store the sockets: %s; a restart may lose %s", why, self._waiting)

    async def _tell(self, manager: socket.socket, state: str, stored: socket.socket | None = None) -> None:
        """Send a message, with a descriptor if ``stored`` is given. Raises OSError."""
        descriptors = array.array("i", [stored.fileno()] if stored else [])
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)] if stored else []
        while True:
            try:
                manager.sendmsg([state.encode()], ancillary, 0, self._address)
                return
            except BlockingIOError:
                await asyncio.sleep(_PAUSE)
