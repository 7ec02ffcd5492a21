"""What the web pages show of a running server: its live objects behind the interface that the pages read."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lbdns.answering.respond import Responder
from lbdns.farm import Farm
from lbdns.server.durations import Durations
from lbdns.server.listeners import Listeners
from lbdns.server.plans import Planner
from lbdns.snapshot import Snapshot

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from lbdns_collector.collector import Collector


class ServerSource:
    """The StatusSource of ``lbdns serve``."""

    workers = 1

    def __init__(self, responder: Responder, durations: Durations, listeners: Listeners, planner: Planner) -> None:
        self._responder, self._durations = responder, durations
        self._listeners, self._planner = listeners, planner
        self._started = time.monotonic()
        self.collector: Collector | None = None  # the embedded one
        self.serving = False

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._planner.subscribe(callback)

    @property
    def farm(self) -> Farm:
        return self._responder.table.farm

    @property
    def snapshot(self) -> Snapshot:
        return self._planner.snapshot

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self._started

    @property
    def queries(self) -> int:
        return self._durations.queries

    @property
    def report_counts(self) -> Mapping[str, int]:
        return self.collector.counts if self.collector else {}

    def drained(self, pool: str) -> Collection[str]:
        members = next(p.members for p in self.farm.pools if p.name == pool)
        return [member.name for member in members if member.full_name in self._planner.drained]

    def answers(self, pool: str) -> Sequence[int]:
        table = self._responder.table
        totals = [handout.totals() for (name, _), handout in table.handouts.items() if name == pool]
        return [sum(counts) for counts in zip(*totals, strict=True)]

    def metric_families(self) -> Iterable[Metric]:
        # Here: queries are answered before the metrics library is read in
        from lbdns.server.dns_metrics import dns_families, server_families
        from lbdns_collector.web.metrics import collector_families

        yield from dns_families(self._responder.table, self._durations)
        yield from server_families(
            self._planner.fail_opens, self._planner.failing_open, self._listeners.unsent, self._listeners.failed
        )
        if self.collector:
            yield from collector_families(self.collector)
