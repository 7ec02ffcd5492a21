"""Receives reports from a bus, and passes them to the report table in batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from lbdns.bus.bus_connection import BusConnection, BusSubscription
from lbdns.events.event_log import EventLog
from lbdns_collector.reports.bus_status import BusStatus
from lbdns_collector.reports.report_socket import RejectionLog, record_rejection
from lbdns_collector.reports.report_table import ACCEPTED, DUPLICATE, ReportTable
from lbdns_shared.bus_subject import host_in_subject, report_subjects

if TYPE_CHECKING:
    from nats.aio.msg import Msg

BATCH: Final = 64  # reports per turn of the event loop, as in ``report_socket``


class BusReports:
    """Subscriptions to the reports on a bus, all or those of some pools. Use them in the event loop only."""

    def __init__(
        self, connection: BusConnection, table: ReportTable, on_change: Callable[[], None], events: EventLog
    ) -> None:
        """``on_change`` is called after each batch of reports that contains an accepted report.

        Rejected reports are recorded in ``events``.
        """
        self._connection = connection
        self._table, self._on_change, self._events = table, on_change, events
        self._subjects: tuple[str, ...] = report_subjects(())
        self._subscriptions: dict[str, BusSubscription] = {}  # by subject
        self._is_started = False
        self._waiting: list[Msg] = []
        self._rejections = RejectionLog()

    def start(self) -> None:
        """Subscribe, now or as soon as there is a connection. Subscribing twice does nothing."""
        self._is_started = True
        self._subscribe(self._subjects)

    def stop(self) -> None:
        """End the subscriptions. Reports that have already arrived are processed."""
        self._is_started = False
        self._subscribe(())
        self._process()

    def _subscribe(self, subjects: Sequence[str]) -> None:
        """Subscribe to ``subjects`` only. Subscriptions to other subjects end afterwards, so that no report is lost."""
        subscriptions = self._subscriptions
        for subject in subjects:
            if subject not in subscriptions:
                subscriptions[subject] = self._connection.subscribe(subject, self._receive, required=True)
        for subject in [subject for subject in subscriptions if subject not in subjects]:
            subscriptions.pop(subject).end()

    def reconfigure(self, pools: Sequence[str]) -> None:
        """Receive the reports of the agents in ``pools``, or all reports if there are none.

        Show or hide the state of the bus, after the connection has changed to another configuration.
        """
        self._subjects = report_subjects(pools)
        if self._is_started:
            self._subscribe(self._subjects)
        before = self._table.bus
        if not self._connection.is_configured:
            self._table.bus = None
        elif before is None:
            self._table.bus = BusStatus(self._connection.state)

    async def _receive(self, message: Msg) -> None:
        """Add a report to the current batch. The library calls this method once for each report."""
        if not self._is_started:
            return  # another process subscribes now
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
