"""All listening sockets of a DNS server: duplicates for a new process, and copies in the service manager."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Sequence

from lbdns.server.control.control_socket import ControlSocket
from lbdns.server.dns_service import DnsService
from lbdns.sockets.inherited_sockets import InheritedSocket
from lbdns.sockets.socket_store import SocketStore
from lbdns_collector.reports.collector import Collector
from lbdns_collector.web.web_interface import WebInterface
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError

log = logging.getLogger("lbdns.server")


class ServerSockets:
    """The listening sockets of a server's parts, which keep them."""

    def __init__(self, dns: DnsService, collector: Collector | None, web: WebInterface, control: ControlSocket) -> None:
        self._dns, self._collector, self._web, self._control = dns, collector, web, control
        self._store = SocketStore()

    def holds(self, sockets: Iterable[socket.socket]) -> None:
        """Record that the service manager holds ``sockets``, because this process has inherited them."""
        self._store.holds(sockets)

    def duplicates(self) -> Sequence[InheritedSocket]:
        """Return duplicates of all sockets. Raises LbdnsError if no descriptors are left."""
        found: list[InheritedSocket] = []
        try:
            for each in self._dns.sockets.inheritable():
                found.append(InheritedSocket(each.purpose, each.asked, each.sock.dup()))  # noqa: PERF401
            for reports in self._collector.duplicates() if self._collector else ():
                found.append(InheritedSocket("reports", *reports))  # noqa: PERF401
            if web := self._web.duplicate():
                found.append(InheritedSocket("web", *web))
            if control := self._control.duplicate():
                found.append(InheritedSocket("control", Endpoint(str(control[0]), 0), control[1]))
        except OSError as error:
            for each in found:
                each.sock.close()
            raise LbdnsError(f"the sockets cannot be duplicated: {error.strerror}") from None
        return found

    async def store(self) -> None:
        """Store the sockets in the service manager, which passes them to the next process if it restarts this one."""
        if not self._store.is_on:
            return
        try:
            found = self.duplicates()
        except LbdnsError as error:
            log.warning("the service manager does not store the sockets: %s; a restart may lose queries", error)
            return
        try:
            # The next process cannot find the control socket by an address and port
            await self._store.update([each.sock for each in found if each.purpose != "control"])
        finally:
            for each in found:
                each.sock.close()
