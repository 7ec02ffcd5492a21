"""What the web pages show of a running server: its live objects behind the interface that the pages read."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lbdns.farm import Farm, Pool
from lbdns.policies.guard_rails.guards import Guard
from lbdns.server.answerer import Answerer
from lbdns.server.figures import NO_ANSWERS, NOTHING, Figures
from lbdns.shadows import ShadowConfig, shadows_of
from lbdns.snapshot import Snapshot
from lbdns_collector.status import AdaptedFigures, ShadowFigures

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from lbdns_collector.collector import Collector


class ServerSource:
    """The StatusSource of ``lbdns serve``. ``farm`` is to be set after each reload."""

    def __init__(self, farm: Farm, answerer: Answerer) -> None:
        self.farm = farm
        self._answerer = answerer
        self._started = time.monotonic()
        self.inherit(NOTHING)
        self.collector: Collector | None = None  # the embedded one
        self.serving = False

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._answerer.planner.subscribe(callback)

    @property
    def workers(self) -> int:
        return self._answerer.workers

    @property
    def snapshot(self) -> Snapshot:
        return self._answerer.planner.snapshot

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self._started

    @property
    def queries(self) -> int:
        return self._answerer.queries + self._inherited.queries

    @property
    def report_counts(self) -> Mapping[str, int]:
        return self.collector.counts if self.collector else {}

    def inherit(self, figures: Figures) -> None:
        """Go on counting where another server, whose place this one takes, has ended."""
        self._inherited = figures
        self._inherited_answers = figures.by_pool()

    def figures(self) -> Figures:
        """All that was counted, with what ``server_families`` tells."""
        planner = self._answerer.planner
        own = {"fail_opens": planner.fail_opens, "worker_restarts": self._answerer.restarts}
        return self._answerer.figures() + Figures(named=own) + self._inherited

    def drained(self, pool: str) -> Collection[str]:
        members = next(p.members for p in self.farm.pools if p.name == pool)
        return [member.name for member in members if member.full_name in self._answerer.planner.drained]

    def answers(self, pool: str) -> Sequence[int]:
        members = next(p.members for p in self.farm.pools if p.name == pool)
        before, now = self._inherited_answers.get(pool, NO_ANSWERS), self._answerer.answers(pool)
        return [now[member.full_name] + before[member.full_name] for member in members]

    @property
    def adapted(self) -> AdaptedFigures | None:
        return self.collector.adapted if self.collector else None

    def shadows(self) -> Mapping[str, Sequence[ShadowFigures]]:
        tried = [(pool, shadows_of(pool.config, self.farm.config.collector)) for pool in self.farm.pools]
        now = self._answerer.shadow_figures() if any(configs for _, configs in tried) else NOTHING
        return {pool.name: [self._shadow(pool, config, now) for config in configs] for pool, configs in tried}

    def _shadow(self, pool: Pool, config: ShadowConfig, now: Figures) -> ShadowFigures:
        key = pool.name, config.live, config.name
        both = now, self._inherited
        return ShadowFigures(
            config.live,
            config.policy,
            config.score,
            [sum(f.shadow_answers.get((*key, member.full_name), 0) for f in both) for member in pool.members],
            sum(f.diverted.get(key, 0) for f in both),
        )

    def guards(self, pool: str) -> Sequence[Guard]:
        return self._answerer.planner.guards(pool)

    async def refresh(self) -> None:
        await self._answerer.refresh()

    def metric_families(self) -> Iterable[Metric]:
        # Here: queries are answered before the metrics library is read in
        from lbdns.server.dns_metrics import dns_families, server_families
        from lbdns_collector.web.metrics import collector_families

        figures = self.figures()
        yield from dns_families(self.farm, figures)
        yield from server_families(figures.named, self._answerer.planner.failing_open)
        if self.collector:
            yield from collector_families(self.collector)
