"""What a fault works with: the farm, the measuring load, marks in time, and the expectations that it checks."""

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
    """One run of a fault. ``quick`` asks for shorter periods where a fault chooses them itself."""

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
        """Mark the moment at which the fault is injected, and return it."""
        self.began = time.monotonic()
        return self.began

    def ease(self) -> float:
        """Mark the moment at which the fault is removed: recovery is measured from here. Return it."""
        self.eased = time.monotonic()
        return self.eased

    def expect(self, holds: object, what: str) -> bool:
        """Record ``what`` as a problem unless ``holds`` is true. Return whether it is."""
        if not holds:
            self.problems.append(what)
        return bool(holds)

    def awaits(self, condition: Callable[[], object], what: str, seconds: float, step: float = STEP) -> bool:
        """Wait for a condition that is not part of the recovery. Record ``what`` as a problem after ``seconds``.

        ``step`` is the time between two checks in seconds; checks that burden the server need a longer one.
        """
        return self.expect(wait_for(condition, seconds, step) is not None, f"not within {seconds:g} s: {what}")

    def recovers(self, condition: Callable[[], object], what: str, seconds: float = 15.0, step: float = STEP) -> bool:
        """Wait for a condition that is part of the recovery. Record a problem if it is not met within ``seconds``."""
        at = wait_for(condition, seconds, step)
        if at is not None:
            self.recovered_at = max(at, self.recovered_at or 0.0)
        return self.expect(at is not None, f"not recovered within {seconds:g} s: {what}")

    def keep(self, seconds: float) -> None:
        """Leave the fault in force, or watch the recovered farm, for ``seconds``."""
        time.sleep(seconds)

    def forbid(self, member: str, begin: float, end: float = float("inf")) -> None:
        """Count answers as wrong that name ``member`` in a period (monotonic seconds)."""
        self.bans.append(Ban(list(self.farm.plan.hosts).index(member), begin, end))

    # -- conditions that many faults wait for

    def is_healthy(self) -> bool:
        return self.farm.health().status == 200

    def all_usable(self) -> bool:
        return self.farm.usable() == set(MEMBERS)

    def state_is(self, member: str, *states: str) -> Callable[[], bool]:
        """Return a condition: the member's state is one of ``states``."""
        return lambda: self.farm.members().get(member, {}).get("state") in states

    def fails_open(self) -> bool:
        pools = self.farm.status()["pools"]
        return bool(pools and pools[0]["fail_open"])

    def answers(self) -> bool:
        """Return whether the newest second of the load's queries, apart from those still waited for, has no loss."""
        now = time.monotonic()
        newest = self.load.between(now - 1.0, now - 0.1)
        return bool(newest) and all(record.tries == 1 for record in newest)

    def has_workers(self, count: int, without: Sequence[int] = ()) -> Callable[[], bool]:
        """Return a condition: ``count`` workers run, and none of the processes in ``without`` is among them."""

        def check() -> bool:
            workers = self.farm.processes().workers
            return len(workers) == count and not set(workers) & set(without)

        return check

    def unhealthy(self) -> Callable[[], bool]:
        """Return a condition: /healthz responds with a status other than 200 and gives a reason."""

        def check() -> bool:
            health: Health = self.farm.health()
            return health.status == 503 and bool(health.text.strip())

        return check
