"""The control command ``take-over`` on the side of the running server: what it hands over, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from lbdns.counting.answer_counters import AnswerCounters
from lbdns.events.event_log import EventLog
from lbdns.server.control import takeover
from lbdns.server.control.control_socket import ControlCommand, ControlSocket
from lbdns.server.control.override_manager import OverrideManager
from lbdns.server.current_configuration import CurrentConfiguration
from lbdns.server.dns_service import DnsService
from lbdns.server.server_status import ServerStatus
from lbdns.sockets.inherited_sockets import InheritedSocket
from lbdns_collector.reports.collector import Collector
from lbdns_collector.web.web_interface import WebInterface
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError

log = logging.getLogger("lbdns.server")


class EndingServer(Protocol):
    """The server that a new process may replace."""

    over: asyncio.Event  # to be set when it has been replaced
    events: EventLog

    @property
    def changing(self) -> asyncio.Lock:
        """Held while the configuration changes or another process takes over."""

    async def end(self) -> None:
        """Answer what has been read, and close everything but the control socket."""


class Handover:
    """A ``TakeoverSource``, and the handler of the command."""

    def __init__(
        self,
        current: CurrentConfiguration,
        dns: DnsService,
        collector: Collector | None,
        web: WebInterface,
        overrides: OverrideManager,
        status: ServerStatus,
        server: EndingServer,
    ) -> None:
        self.control: ControlSocket  # to be set before the first command
        self._current, self._dns, self._collector, self._web = current, dns, collector, web
        self._overrides, self._status, self._server = overrides, status, server
        self._finished = False  # the new process has told this server to end

    async def command(self, command: ControlCommand) -> None:
        """Hand everything over to the process that sent ``command``, or go on if that fails."""
        if self._server.changing.locked():
            raise LbdnsError("take-over: a reload, or another take-over, is under way; try again")
        record = self._server.events.record
        async with self._server.changing, self._overrides.handing_over:
            record("server", "a new process asks to take over", logger=log.name)
            try:
                await takeover.hand_over(command, self)
            except LbdnsError as error:
                what = f"take-over: {error}; this server goes on"
                record("server", what, level=logging.ERROR, logger=log.name)
            finally:
                if self._finished:
                    record("server", "a new process has taken over", logger=log.name)
                    self._server.over.set()

    def state(self) -> Mapping[str, Any]:
        answerer = self._dns.answerer
        secrets = self._dns.secrets(self._current.value)
        return takeover.write_state(answerer.snapshot, answerer.overrides, secrets)

    def sockets(self) -> Sequence[InheritedSocket]:
        found = [InheritedSocket(each.purpose, each.asked, each.sock.dup()) for each in self._dns.inheritable()]
        if self._collector:
            found += [InheritedSocket("reports", *each) for each in self._collector.duplicates()]
        if web := self._web.duplicate():
            found.append(InheritedSocket("web", *web))
        if control := self.control.duplicate():
            found.append(InheritedSocket("control", Endpoint(str(control[0]), 0), control[1]))
        return found

    def pause_reports(self) -> Any:
        if self._collector is None:
            return None
        self._collector.pause()
        return self._collector.table.state(time.monotonic())

    def resume_reports(self) -> None:
        if self._collector:
            self._collector.resume()

    async def finish(self) -> AnswerCounters:
        self._finished = True
        self._status.program.serving = False
        await self.control.stop_listening(leave=True)
        await self._server.end()
        return self._status.counters.total()
