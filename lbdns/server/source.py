"""What the web pages show of a running server: its live objects behind the interface that the pages read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lbdns.errors import UnknownNameError
from lbdns.events import Events
from lbdns.explanation import find_owner, score_parts, unknown_name
from lbdns.farm import Farm, Pool
from lbdns.overrides import Overrides
from lbdns.policies.guard_rails.guards import Guard
from lbdns.server.answerer import Answerer
from lbdns.server.figures import NO_ANSWERS, NOTHING, Figures, by_type_and_rcode
from lbdns.shadows import ShadowConfig, shadows_of
from lbdns.snapshot import Snapshot
from lbdns_collector.score import Score, build_score
from lbdns_collector.status import AdaptedFigures, ShadowFigures

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from lbdns.history.history import History
    from lbdns.server.follow import Follower
    from lbdns_collector.collector import Collector

PAUSE: Final = 0.5  # s between two looks at what was asked ...
COSTS: Final = 50.0  # ... or so many times what a look takes: with many names it takes long
_NOBODY: Final[tuple[Mapping[str, int], Mapping[str, int]]] = ({}, {})


class ServerSource:
    """The StatusSource of ``lbdns serve``. ``farm`` is to be set after each reload."""

    def __init__(self, farm: Farm, answerer: Answerer, events: Events) -> None:
        self.farm = farm
        self.events = events
        self.history: History | None = None
        self._own_score = build_score(farm.config)
        self._scored: object = farm  # whose score that is
        self._asked = (0.0, _NOBODY)  # until when these figures are new enough
        self._answerer = answerer
        self._started = time.monotonic()
        self.inherit(NOTHING)
        self.collector: Collector | None = None  # the embedded one ...
        self.follower: Follower | None = None  # ... or who hears of another
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
        self._inherited = figures = figures.ended()
        self._inherited_answers = figures.by_pool()

    def figures(self) -> Figures:
        """All that was counted, with what ``server_families`` tells."""
        planner = self._answerer.planner
        own = {"fail_opens": planner.fail_opens, "worker_restarts": self._answerer.restarts}
        open_ms = {pool.name: round(1000 * planner.fail_open_seconds(pool.name)) for pool in self.farm.pools}
        return self._answerer.figures() + Figures(named=own, fail_open_ms=open_ms) + self._inherited

    @property
    def overrides(self) -> Overrides:
        return self._answerer.planner.overrides

    @property
    def score(self) -> Score:
        if self.collector:
            return self.collector.score
        if self._scored is not self.farm:
            self._own_score, self._scored = build_score(self.farm.config), self.farm
        return self._own_score

    def capacities(self, pool: str) -> tuple[Sequence[float], bool]:
        return self._answerer.planner.capacities(pool)

    def asked(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        began = time.monotonic()
        until, found = self._asked
        if began >= until:
            found = by_type_and_rcode(self._answerer.asked(), self._inherited.asked)
            now = time.monotonic()
            self._asked = (now + max(PAUSE, COSTS * (now - began)), found)
        return found

    async def explain(self, name: str) -> Mapping[str, Any]:
        farm = self.farm
        owner = find_owner(farm, name)
        if owner is None:
            raise UnknownNameError(unknown_name(farm, name))
        found = dict(await self._answerer.explain(*owner))
        # A worker knows the configured score, not the weights that the adaptive mode uses just now
        readings = self.snapshot.readings
        full_names = {member.name: member.full_name for member in owner[0].members}
        for told in found["members"]:
            reading = readings.get(full_names.get(told["name"], ""))
            if reading and reading.score == told["score"]:
                told["score_parts"] = score_parts(reading, self.score.parts)
        return {**found, "score_name": farm.config.collector.score, "time": round(time.time(), 3)}

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
        from lbdns.server.dns_metrics import dns_families, follower_families, server_families
        from lbdns_collector.web.metrics import collector_families

        figures = self.figures()
        yield from dns_families(self.farm, figures)
        yield from server_families(self.farm, figures, self._answerer.planner.failing_open)
        if self.collector:
            yield from collector_families(self.collector)
        if self.follower:
            yield from follower_families(self.follower.connected)
