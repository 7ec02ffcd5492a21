"""What the web app needs to know, whoever runs it: ``lbdns serve`` or the collector alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from lbdns import __version__
from lbdns.events import Events
from lbdns.farm import Farm
from lbdns.overrides import Overrides
from lbdns.policies.guard_rails.guards import Guard
from lbdns.snapshot import Snapshot
from lbdns_collector.score import Score
from lbdns_collector.status import AdaptedFigures, ServerFigures, ShadowFigures, Situation

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from lbdns.history.history import History


class StatusSource(Protocol):
    """The live state behind the pages. Everything is read in the event loop and costs next to nothing."""

    @property
    def farm(self) -> Farm:
        """The configuration in force; another object after a reload."""

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot."""

    @property
    def uptime_s(self) -> float:
        """Seconds since the program started."""

    @property
    def queries(self) -> int:
        """DNS queries so far."""

    @property
    def workers(self) -> int:
        """Processes that answer queries; 0 where none are answered."""

    @property
    def serving(self) -> bool:
        """Whether the program does its work: its sockets are open and it isn't stopping."""

    @property
    def report_counts(self) -> Mapping[str, int]:
        """Datagrams by result, as ``Collector.counts``; empty where reports are received elsewhere."""

    @property
    def events(self) -> Events:
        """What happened lately, and what happens."""

    @property
    def overrides(self) -> Overrides:
        """What people have ordered."""

    @property
    def score(self) -> Score:
        """What scores are made by just now."""

    @property
    def history(self) -> History | None:
        """What is recorded; None where nothing is."""

    def capacities(self, pool: str) -> tuple[Sequence[float], bool]:
        """What each member can carry, in the pool's order, and whether that is requests/s; nothing where it isn't
        known."""

    def asked(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Queries so far by the name of their type, and responses by the name of their rcode."""

    async def explain(self, name: str) -> Mapping[str, Any]:
        """Why ``name`` is answered as it is, as ``lbdns.explanation`` tells it. Raises UnknownNameError for a name
        that no pool is asked by, and LbdnsError if it can't be told just now."""

    def answers(self, pool: str) -> Sequence[int]:
        """Answers so far per member, in the pool's order."""

    def shadows(self) -> Mapping[str, Sequence[ShadowFigures]]:
        """By pool, what is tried beside its policies."""

    @property
    def adapted(self) -> AdaptedFigures | None:
        """The weights that the adaptive mode uses just now, where it is on."""

    def guards(self, pool: str) -> Sequence[Guard]:
        """What keeps each member from its whole share although it is usable, in the pool's order; empty where nobody
        is handed out."""

    async def refresh(self) -> None:
        """Make the counts as new as they can be: other processes may have to be asked."""

    def metric_families(self) -> Iterable[Metric]:
        """Families for /metrics beyond those that every source has."""

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have ``callback`` called, in the event loop, after snapshot, drains or farm changed.

        Returns what ends that.
        """


def situation(source: StatusSource) -> Situation:
    """The source at this moment, held still: what is built from it may be built in a thread."""
    farm = source.farm
    return Situation(
        farm=farm,
        snapshot=source.snapshot,
        now=time.monotonic(),
        overrides=source.overrides,
        answers={pool.name: tuple(source.answers(pool.name)) for pool in farm.pools},
        server=ServerFigures(
            __version__,
            source.uptime_s,
            source.queries,
            source.workers,
            time.time() - source.uptime_s,
            *source.asked(),
            asdict(source.history.figures) if source.history else None,
        ),
        parts=source.score.parts,
        capacities={pool.name: source.capacities(pool.name) for pool in farm.pools},
        shadows=source.shadows(),
        guards={pool.name: guards for pool in farm.pools if (guards := tuple(source.guards(pool.name)))},
        adapted=source.adapted,
    )
