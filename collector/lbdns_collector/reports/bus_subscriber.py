"""Receives reports from a bus (NATS), passes them to the report table, and keeps the connection.

The library nats-py parses the protocol. It is not asked to reconnect, because its pauses are not random: all the
collectors and agents of a farm would return to a restarted server at the same moment.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from lbdns.events.event_log import EventLog
from lbdns.secrets.bus_access import BusAccess
from lbdns_collector.reports.bus_error_text import error_text
from lbdns_collector.reports.bus_status import BusStatus
from lbdns_collector.reports.report_socket import RejectionLog, record_rejection
from lbdns_collector.reports.report_table import ACCEPTED, DUPLICATE, ReportTable
from lbdns_shared.bus_subject import REPORT_SUBJECTS, host_in_subject
from lbdns_shared.bus_url import BusServer

if TYPE_CHECKING:
    from nats.aio.msg import Msg

BATCH: Final = 64  # reports per turn of the event loop, as in ``report_socket``
LONGEST_START: Final = 5.0  # seconds until a server has accepted the connection and the subscription
LONGEST_PAUSE: Final = 1.0  # seconds between two rounds of attempts; the actual pause is random
AFTER_LOSS: Final = 0.5  # seconds: the maximum random pause after a connection was lost
LONGEST_END: Final = 1.0  # seconds for closing a connection
MOST_ERRORS: Final = 10  # of a connection that are kept; the last one tells why it ended
PING_INTERVAL: Final = 1  # seconds between two PINGs; a server that leaves two of them unanswered counts as dead


class SubscribeError(Exception):
    """Raised if a server does not accept the connection or the subscription. The message is the reason."""


class BusSubscriber:
    """A subscription to all reports on a bus. Use it in the event loop only."""

    def __init__(self, table: ReportTable, on_change: Callable[[], None], events: EventLog) -> None:
        """``on_change`` is called after each batch of reports that contains an accepted report.

        Rejected reports and changes of the connection's state are recorded in ``events``.
        """
        self._table, self._on_change, self._events = table, on_change, events
        self._access: BusAccess | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[Msg] = []
        self._rejections = RejectionLog()
        self._logged: dict[BusServer, str] = {}  # the logged problems since the last connection
        self._ending: set[asyncio.Task[None]] = set()

    def use(self, access: BusAccess | None) -> None:
        """Subscribe at the servers of ``access``. If they and the credentials are the same, keep the connection.

        None ends the subscription.
        """
        if access == self._access and self._task is not None:
            return
        self._cancel()
        self._access = access
        self._logged.clear()
        if access is None:
            self._table.bus = None
            return
        counts = self._table.bus.counts if self._table.bus else None
        self._table.bus = BusStatus() if counts is None else BusStatus(counts=counts)
        self._task = asyncio.get_running_loop().create_task(self._run(access, self._table.bus))

    async def stop(self) -> None:
        """Close the connection. ``use`` opens another one."""
        self._cancel()
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _cancel(self) -> None:
        task, self._task = self._task, None
        if task:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _run(self, access: BusAccess, status: BusStatus) -> None:
        servers = list(access.servers)
        random.shuffle(servers)
        while True:
            for server in servers:
                try:
                    await self._subscribe(access, server, status)
                except SubscribeError as error:
                    self._note_problem(server, status, str(error))
                else:
                    await asyncio.sleep(random.uniform(0.0, AFTER_LOSS))
            await asyncio.sleep(random.uniform(0.1, 1.0) * LONGEST_PAUSE)

    async def _subscribe(self, access: BusAccess, server: BusServer, status: BusStatus) -> None:
        """Receive reports until the connection ends. Raises SubscribeError if it can't be made."""
        from lbdns_collector.reports.nats_client import NatsClient  # most collectors have no bus

        client = NatsClient(server.tls)
        try:
            try:
                async with asyncio.timeout(LONGEST_START):
                    await client.connect(
                        **_options(access, server), error_cb=client.on_error, closed_cb=client.on_closed
                    )
                    await client.subscribe(REPORT_SUBJECTS, cb=self._receive)
                    await client.flush()  # after this, an error about the subscription has arrived
            except TimeoutError:
                raise SubscribeError(client.reason("the server did not accept the connection in time")) from None
            except Exception as error:  # the library raises many kinds
                raise SubscribeError(client.reason(error_text(error))) from None
            if client.has_failed:
                raise SubscribeError(client.reason("the server refuses the subscription"))
            self._note_connected(server, status)
            await client.over.wait()
            self._note_problem(server, status, client.reason("the connection was lost"))
        finally:
            status.server = ""
            await client.end(LONGEST_END)

    async def _receive(self, message: Msg) -> None:
        """Add a report to the current batch. The library calls this method once for each report."""
        waiting = self._waiting
        waiting.append(message)
        if len(waiting) == 1:
            asyncio.get_running_loop().call_soon(self._process)
        elif len(waiting) >= BATCH:
            self._process()
            await asyncio.sleep(0)  # other tasks in this event loop can run

    def _process(self) -> None:
        """Pass the batch to the report table."""
        messages, self._waiting = self._waiting, []
        accept = self._table.accept
        now, wall = time.monotonic(), time.time()
        changed = False
        for message in messages:
            subject = message.subject
            result = accept(message.data, subject, now, wall, host_in_subject(subject))
            if result is ACCEPTED:
                changed = True
            elif result is not DUPLICATE and (line := self._rejections.note(result, subject, now)):
                record_rejection(self._events, result, line)
        if changed:
            self._on_change()

    def _note_connected(self, server: BusServer, status: BusStatus) -> None:
        status.server, status.problem = str(server), ""
        self._logged.clear()
        self._record(f"bus {server}: receiving reports", logging.INFO)

    def _note_problem(self, server: BusServer, status: BusStatus, reason: str) -> None:
        status.server, status.problem = "", f"{server}: {reason}"
        if self._logged.get(server) != reason:
            self._logged[server] = reason
            self._record(f"bus {status.problem}; no reports arrive from the bus; the collector keeps trying")

    def _record(self, text: str, level: int = logging.WARNING) -> None:
        self._events.record("reports", text, level=level, logger="lbdns.collector")


def _options(access: BusAccess, server: BusServer) -> dict[str, Any]:
    """Return the library's options for one server."""
    credentials = server.credentials(access.password)
    has_own_context = server.tls or bool(access.authorities)
    return {
        "servers": [f"nats://{server.endpoint}"],
        "name": "lbdns-collector",
        "allow_reconnect": False,
        "max_reconnect_attempts": 1,  # with 0, the library would try to reach a server without end
        "reconnect_time_wait": 0,
        "connect_timeout": LONGEST_START,
        "ping_interval": PING_INTERVAL,
        "user": credentials.get("user"),
        "password": credentials.get("pass"),
        "token": credentials.get("auth_token"),
        "tls": access.tls_context() if has_own_context else None,
        "tls_hostname": server.endpoint.host if has_own_context else None,
    }
