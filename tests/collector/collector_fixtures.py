"""Fixtures for tests of the collector: a small farm, configurations on disk, reports, and status sources."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client.core import Metric

from lbdns.choosing.guard_rails.guard_rails import Guard
from lbdns.choosing.spillover import BackupUse
from lbdns.events.event_log import EventLog
from lbdns.model.farm import Farm, Pool, ReportingHost
from lbdns.model.farm_reader import load_farm
from lbdns.model.overrides import NO_OVERRIDES
from lbdns.model.snapshot import EMPTY_SNAPSHOT, Reading, Snapshot
from lbdns.planning.site_plans import SitePlans
from lbdns.scores.score import Score
from lbdns.scores.thesis import THESIS
from lbdns_collector.reports.adaptive_weights import WeightSearchStatus
from lbdns_collector.reports.report_table import ReportTable
from lbdns_collector.status.status_document import ShadowStatistics
from lbdns_collector.status.status_source import Steering
from lbdns_shared.errors import UnknownNameError
from lbdns_shared.keys import KEY_LENGTH, MasterKey
from lbdns_shared.report import Kind, Report, encode
from tests.config.config_files import ZONE, pool_table
from tests.overriding import drains

if TYPE_CHECKING:
    from lbdns.history.live_history import LiveHistory

KEY = MasterKey(bytes(range(KEY_LENGTH)))
OTHER_KEY = MasterKey(bytes(reversed(range(KEY_LENGTH))))

ADDRESSES = {"bilbo": "127.0.0.16", "frodo": "127.0.0.17", "gandalf": "127.0.0.18"}
HOSTS = {name: ReportingHost((f"{name}.hobbit",), (address,)) for name, address in ADDRESSES.items()}
WALL = 1_800_000_000.0  # Unix seconds, for tests without a real clock
IDLE = {
    "run_queue": 0.0, "cpu_idle": 100.0, "gateway_ping": 0.0,
    "requests_per_s": 0.0, "scan_rate": 0.0, "idle_workers": 20.0,
}  # fmt: skip


def datagram(
    host: str = "gandalf",
    *,
    seq: int = 1,
    boot: int = 7,
    at: float = WALL,
    key: MasterKey | None = KEY,
    metrics: Mapping[str, float] = IDLE,
    kind: Kind = "data",
    alarm: str = "",
    interval: float = 1.0,
) -> bytes:
    """Return a report as an agent would send it at Unix time ``at``."""
    report = Report(host, boot, seq, at, interval, metrics, kind, alarm)
    return encode(report, key.agent_key(host) if key else None)


def write_zone(folder: Path, members: Mapping[str, str] = ADDRESSES) -> None:
    lines = ["$TTL 60", "@ SOA ns hostmaster 1 3600 600 86400 60", "@ NS ns", "ns A 127.0.0.1"]
    lines += [f"{name} A {address}" for name, address in members.items()]
    (folder / "hobbit.zone").write_text("\n".join(lines) + "\n")


def write_config(
    folder: Path,
    *,
    members: Sequence[str] = tuple(ADDRESSES),
    collector: str = 'listen = ["127.0.0.1:0"]',
    web: str = "127.0.0.1:0",
    more: str = "",
) -> Path:
    """Write an lbdns.toml and its zone; all ports are free loopback ports unless overridden."""
    write_zone(folder)
    path = folder / "lbdns.toml"
    state = "" if "[server]" in more else '[server]\nstate_dir = "state"\n'
    path.write_text(f'{state}{ZONE}{pool_table(*members)}[collector]\n{collector}\n[web]\nlisten = "{web}"\n{more}')
    return path


def make_farm(folder: Path, **changes: object) -> Farm:
    return load_farm(write_config(folder, **changes))  # type: ignore[arg-type]


def write_key(folder: Path, *keys: MasterKey) -> Path:
    path = folder / "report.key"
    path.write_text("".join(f"{key.line()}\n" for key in keys))
    path.chmod(0o600)
    return path


def reading(age: float = 0.0, **changes: object) -> Reading:
    values: dict[str, object] = {"interval": 1.0, "score": 80, "metrics": IDLE}
    return Reading(received=time.monotonic() - age, **{**values, **changes})  # type: ignore[arg-type]


async def until(condition: Callable[[], object], patience: float = 60.0) -> None:
    """Return once ``condition`` holds. Raises TimeoutError after ``patience`` seconds."""
    async with asyncio.timeout(patience):
        while not condition():  # noqa: ASYNC110  what is waited for has no event: a socket, a file, a process
            await asyncio.sleep(0.002)


class FakeSource:
    """A StatusSource whose values are set by the test. A single object implements all parts of the source."""

    def __init__(self, farm: Farm) -> None:
        self.refreshed = 0
        self.farm = farm
        self.snapshot: Snapshot = EMPTY_SNAPSHOT
        self.uptime_s, self.queries, self.workers, self.fault = 12.5, 0, 1, ""
        self.plane, self.plane_reason = "python", "the native extension is not installed"
        self.kernel: Mapping[str, Any] | None = None
        self.report_counts: dict[str, int] = {"accepted": 3, "replay": 1}
        self.report_table: ReportTable | None = None
        self.events = EventLog()
        self.overrides = NO_OVERRIDES
        self.shared_overrides: Mapping[str, Any] | None = None
        self.shared_answers: Mapping[str, Any] | None = None
        self.score: Score = THESIS
        self.history: LiveHistory | None = None
        self.carried: dict[str, tuple[Sequence[float], bool]] = {}
        self.types: dict[str, int] = {}
        self.rcodes: dict[str, int] = {}
        self.explanations: dict[str, Mapping[str, Any]] = {}
        self.counts: dict[str, list[int]] = {}
        self.guarded: Mapping[str, Sequence[Guard]] = {}
        self.tried: dict[str, Sequence[ShadowStatistics]] = {}
        self.coming: Mapping[str, Mapping[str, Any]] = {}  # see ``upcoming``, by pool
        self.adapted: WeightSearchStatus | None = None
        self.families: list[Metric] = []
        self.steering: Steering | None = None
        self._callbacks: list[Callable[[], None]] = []
        self.members = self.scoring = self.selection = self.counters = self.program = self

    def publish(self, **readings: Reading) -> None:
        """Publish a new snapshot with these readings for members of zone hobbit; other readings are kept."""
        merged = {**self.snapshot.readings, **{f"{name}.hobbit": value for name, value in readings.items()}}
        self.snapshot = Snapshot(self.snapshot.version + 1, merged)
        self.changed()

    def changed(self) -> None:
        for callback in tuple(self._callbacks):
            callback()

    @property
    def subscribers(self) -> int:
        return len(self._callbacks)

    def drain(self, *members: str, pool: str = "") -> None:
        """Drain the given members of zone hobbit."""
        self.overrides = drains(*(f"{name}.hobbit" for name in members), pool=pool)
        self.changed()

    def capacities(self, pool: str) -> tuple[Sequence[float], bool]:
        return self.carried.get(pool, ((), False))

    def type_and_rcode_counts(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        return self.types, self.rcodes

    async def explain(self, name: str) -> Mapping[str, Any]:
        if name not in self.explanations:
            raise UnknownNameError(f"no pool serves the name {name!r}")
        return self.explanations[name]

    def answers(self, pool: str) -> Sequence[int]:
        return self.counts.get(pool, ())

    def guards(self, pool: str) -> Sequence[Guard]:
        return self.guarded.get(pool, ())

    def backup(self, pool: str) -> BackupUse | None:
        return None

    def sites(self, pool: str) -> SitePlans | None:
        return None

    def upcoming(self, pool: Pool) -> Mapping[str, Any]:
        return self.coming.get(pool.name, {})

    def shadows(self) -> Mapping[str, Sequence[ShadowStatistics]]:
        return self.tried

    async def refresh(self) -> None:
        self.refreshed += 1

    def metric_families(self) -> Iterable[Metric]:
        return self.families

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)
