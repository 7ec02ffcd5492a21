"""The environment of one run of a fault: the farm, the measuring load, timestamps, and functions that check
expectations."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from lbdns_tools.bench.dns.benchmark_farm import MEMBERS
from lbdns_tools.faults.fault_farm import FaultFarm, Health
from lbdns_tools.faults.query_load import QueryLoad
from lbdns_tools.faults.query_records import Ban
from lbdns_tools.faults.waiting import STEP, wait_for


class FaultBed:
    """One run of a fault. If ``quick`` is set, faults use shorter periods."""

    def __init__(self, farm: FaultFarm, load: QueryLoad, chance: Random, quick: bool) -> None:
        self.farm, self.load, self.chance, self.quick = farm, load, chance, quick
        self.problems: list[str] = []
        self.bans: list[Ban] = []
        self.notes: dict[str, Any] = {}  # further figures, for the JSON file
        self.resources = ExitStack()  # closed after the run
        self.began = 0.0  # monotonic seconds at which the fault was injected
        self.eased = 0.0  # when it was removed; 0 if it removes itself
        self.recovered_at: float | None = None

    @property
    def folder(self) -> Path:
        return self.farm.folder

    def begin(self) -> float:
        """Record and return the time at which the fault is injected."""
        self.began = time.monotonic()
        return self.began

    def ease(self) -> float:
        """Record and return the time at which the fault is removed and the recovery begins."""
        self.eased = time.monotonic()
        return self.eased

    def expect(self, holds: object, what: str) -> bool:
        """Record ``what`` as a problem unless the expectation ``holds``. Return whether it holds."""
        if not holds:
            self.problems.append(what)
        return bool(holds)

    def awaits(self, condition: Callable[[], object], what: str, seconds: float, step: float = STEP) -> bool:
        """Wait for a condition that is not part of the recovery.

        If the condition is still false after ``seconds``, record ``what`` as a problem.

        ``step`` is the time between two checks in seconds; checks that burden the server need a longer ``step``.
        """
        return self.expect(
            wait_for(condition, seconds, step) is not None, f"still not true after {seconds:g} s: {what}"
        )

    def recovers(self, condition: Callable[[], object], what: str, seconds: float = 15.0, step: float = STEP) -> bool:
        """Wait for a condition that is part of the recovery.

        If the condition is still false after ``seconds``, record a problem.
        """
        at = wait_for(condition, seconds, step)
        if at is not None:
            self.recovered_at = max(at, self.recovered_at or 0.0)
        return self.expect(at is not None, f"no recovery within {seconds:g} s; still not true: {what}")

    def keep(self, seconds: float) -> None:
        """Wait for ``seconds`` while the fault lasts, or after the recovery."""
        time.sleep(seconds)

    def forbid(self, member: str, begin: float, end: float = float("inf")) -> None:
        """Treat an answer as wrong if it names ``member`` between ``begin`` and ``end`` (monotonic seconds)."""
        self.bans.append(Ban(list(self.farm.plan.hosts).index(member), begin, end))

    # -- conditions that many faults wait for

    def is_healthy(self) -> bool:
        return self.farm.health().status == 200

    def all_usable(self) -> bool:
        return self.farm.usable() == set(MEMBERS)

    def state_is(self, member: str, *states: str) -> Callable[[], bool]:
        """Return a function that checks whether the member's state is one of ``states``."""
        return lambda: self.farm.members().get(member, {}).get("state") in states

    def fails_open(self) -> bool:
        pools = self.farm.status()["pools"]
        return bool(pools and pools[0]["fail_open"])

    def answers(self) -> bool:
        """Return whether queries were sent in the last second and none of them was lost. Queries that may still be
        answered are ignored."""
        now = time.monotonic()
        newest = self.load.between(now - 1.0, now - 0.1)
        return bool(newest) and all(record.tries == 1 for record in newest)

    def has_workers(self, count: int, without: Sequence[int] = ()) -> Callable[[], bool]:
        """Return a function that checks whether exactly ``count`` workers are running, and none of them is in
        ``without``."""

        def check() -> bool:
            workers = self.farm.processes().workers
            return len(workers) == count and not set(workers) & set(without)

        return check

    def unhealthy(self) -> Callable[[], bool]:
        """Return a function that checks whether /healthz responds with status 503 and gives a reason."""

        def check() -> bool:
            health: Health = self.farm.health()
            return health.status == 503 and bool(health.text.strip())

        return check
