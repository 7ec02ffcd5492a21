"""The status document, served at ``/api/v1/status``, which describes the pools, their members and the states of the
members.

Pure functions build the document, and write it as JSON in small pieces.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from lbdns.choosing.guard_rails.guard_rails import NO_GUARD, Guard
from lbdns.choosing.spillover import BackupUse
from lbdns.model.farm import Farm, Pool
from lbdns.model.liveness import Liveness, pool_liveness
from lbdns.model.overrides import Overrides
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.native_extension import AVAILABLE
from lbdns.planning.explanation import ScoreParts, backup_document, score_parts
from lbdns.planning.site_explanation import site_documents
from lbdns.planning.site_plans import SitePlans
from lbdns.planning.state_reason import reason
from lbdns_collector.reports.adaptive_weights import WeightSearchStatus

if AVAILABLE:
    import lbdns_native

#: The document of ``ReportChanges`` if no member in a pool has changed, as JSON
NO_CHANGES: Final = b'{"pools":[]}'
#: Seconds between keep-alives on an event stream, for a follower and for a page
FOLLOWER_KEEP_ALIVE: Final = 2.0
PAGE_KEEP_ALIVE: Final = 15.0


def _plain(value: object) -> dict[Any, Any]:
    """Return a read-only mapping as a dict, the only mapping that json can encode."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"JSON cannot represent {type(value).__name__}: {value!r}")


_encode: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain).encode


@dataclass(frozen=True, slots=True)
class ProgramStatus:
    """Data about the program itself, for a status document."""

    version: str
    uptime_s: float
    queries: int
    workers: int
    started: float = 0.0  # Unix seconds
    types: Mapping[str, int] = field(default_factory=dict)  # queries so far by the name of their type
    rcodes: Mapping[str, int] = field(default_factory=dict)  # responses so far by the name of their rcode
    history: Mapping[str, Any] | None = None  # the state of the history, as plain data
    fault: str = ""  # why the program does not do its work now; empty while it does
    steer: bool = False  # whether clients with credentials may override members over HTTP
    scaler: bool = False  # whether the server can read the status of a scaler
    plane: str = ""  # the plane that answers queries, "native" or "python"; empty if the program answers none
    plane_reason: str = ""  # why the plane is not the native one; empty if it is, or if there is none
    kernel: Mapping[str, Any] | None = None  # the state of answering in the kernel, as plain data; None if it is off


@dataclass(frozen=True, slots=True)
class ShadowStatistics:
    """Statistics of the selections that a shadow policy would have made instead of policy ``live``.

    ``answers`` lists the number of selections per member, in the pool's order. ``diverted`` is the number of selections
    that differ from those of ``live``.
    """

    live: str
    policy: str
    score: str  # empty if it is the score in force
    answers: Sequence[int]
    diverted: int


@dataclass(frozen=True, slots=True)
class RejectedStatus:
    """Report counts by result, the senders of rejected reports, and the state of the bus, as plain data.

    ``version`` increases with every rejected report. Without a bus, ``bus`` is None.
    """

    version: int
    counts: Mapping[str, int]
    senders: Sequence[Mapping[str, Any]]
    bus: Mapping[str, Any] | None = None

    @property
    def signature(self) -> tuple[object, ...]:
        """What must be equal if no page has to show anything new."""
        return self.version, self.bus and self.bus["problem"]


@dataclass(frozen=True, slots=True)
class StatusInputs:
    """All data needed to build a status document at ``now`` (monotonic seconds).

    ``answers``, ``shadows``, ``guards`` and ``capacities`` are keyed by pool name. Except in ``shadows``, each sequence
    has one item per member, in the pool's order. For each pool, ``capacities`` also contains a flag that states whether
    the capacities are in requests/s. ``upcoming`` is called only when a document is built, because it takes longer to
    compute than the other data.
    """

    farm: Farm
    snapshot: Snapshot
    now: float
    overrides: Overrides
    answers: Mapping[str, Sequence[int]]
    server: ProgramStatus
    parts: ScoreParts = lambda _: {}
    capacities: Mapping[str, tuple[Sequence[float], bool]] = field(default_factory=dict)
    shadows: Mapping[str, Sequence[ShadowStatistics]] = field(default_factory=dict)
    adapted: WeightSearchStatus | None = None
    guards: Mapping[str, Sequence[Guard]] = field(default_factory=dict)
    upcoming: Callable[[Pool], Mapping[str, Any]] = lambda _: {}  # see ``SelectionSource.upcoming``
    rejected: RejectedStatus | None = None  # None if another program receives the reports
    backups: Mapping[str, BackupUse] = field(default_factory=dict)  # by pool with a backup
    shared_overrides: Mapping[str, Any] | None = None  # see ``MemberSource.shared_overrides``
    shared_answers: Mapping[str, Any] | None = None  # see ``MemberSource.shared_answers``
    sites: Mapping[str, SitePlans] = field(default_factory=dict)  # by pool with sites

    def guards_of(self, pool: Pool) -> Sequence[Guard]:
        """Return one guard per member. While a reload is replacing the members, all guards are NO_GUARD."""
        guards = self.guards.get(pool.name, ())
        return guards if len(guards) == len(pool.members) else (NO_GUARD,) * len(pool.members)

    def capacities_of(self, pool: Pool) -> tuple[Sequence[float], bool]:
        """Return two values: the members' capacities (empty if unknown), and whether they are in requests/s."""
        found, is_measured = self.capacities.get(pool.name, ((), False))
        return (found, is_measured) if len(found) == len(pool.members) else ((), False)

    def readings(self, pool: Pool) -> list[Reading | None]:
        """Return one reading per member of ``pool``, or None for members that have never reported."""
        return [self.snapshot.readings.get(member.full_name) for member in pool.members]

    def liveness(self, pool: Pool) -> Liveness:
        """Return the states of the members of ``pool``."""
        return pool_liveness(pool, self.snapshot, self.overrides, self.now, self.farm.config.collector.stale_after)


def build_status(inputs: StatusInputs) -> dict[str, Any]:
    pools = (pool_document(inputs, pool) for pool in inputs.farm.pools)
    return {"pools": [{**head, "members": list(members)} for head, members in pools], **program_document(inputs)}


def program_document(inputs: StatusInputs) -> dict[str, Any]:
    """Return the part of the status document that describes the program."""
    server, adaptive, reports = inputs.server, {}, {}
    shared = {} if inputs.shared_overrides is None else {"shared_overrides": inputs.shared_overrides}
    if inputs.shared_answers is not None:
        shared["shared_answers"] = inputs.shared_answers
    if rejected := inputs.rejected:
        reports["reports"] = {"counts": rejected.counts, "rejected": rejected.senders, "bus": rejected.bus}
    if figures := inputs.adapted:
        weights = {metric: round(weight, 2) for metric, weight in figures.weights.items()}
        adaptive["adaptive"] = asdict(figures) | {"weights": weights, "gain": round(figures.gain, 4)}
    return {
        "server": {
            "version": server.version,
            "uptime_s": round(server.uptime_s, 3),
            "queries": server.queries,
            "workers": server.workers,
            "plane": server.plane,
            "plane_reason": server.plane_reason,
            "kernel": server.kernel,
            "fault": server.fault,
            "steer": server.steer,
            "scaler": server.scaler,
            "started": round(server.started, 3),
            "types": dict(server.types),
            "rcodes": dict(server.rcodes),
            "history": server.history or {"on": False, "ok": True, "error": "", "dropped": 0, "bytes": 0},
        },
        **reports,
        **shared,
        **adaptive,
    }


def to_json(document: object) -> bytes:
    """Return ``document`` as a single line of JSON."""
    return _encode(document).encode("ascii")


def separated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces of JSON, with a comma before every piece except the first."""
    comma = b""
    for piece in pieces:
        yield comma + piece
        comma = b","


def status_pieces(inputs: StatusInputs) -> Iterator[bytes]:
    """Yield the status document (see ``build_status``) as a single line of JSON, divided into pieces.

    Building the first piece of a pool takes 1.5 us per member; building most other pieces takes at most about 60 us.
    """
    yield b'{"pools":['
    for number, pool in enumerate(inputs.farm.pools):
        head, members = pool_document(inputs, pool)
        yield (b"," if number else b"") + to_json(head).removesuffix(b"}") + b',"members":['
        yield from separated(to_json(member) for member in members)
        yield b"]}"
    yield b"]," + to_json(program_document(inputs)).removeprefix(b"{")


def status_json(inputs: StatusInputs) -> bytes:
    return b"".join(status_pieces(inputs))


def change_signature(inputs: StatusInputs) -> tuple[object, float]:
    """Return two values: a signature, and the time of the next state change.

    The signature covers all data that can change without a report. If two signatures are equal, none of this data has
    changed. The returned time is in monotonic seconds, and is infinity if no state can change without a report.
    """
    signature: list[object] = []
    next_change = math.inf
    for pool in inputs.farm.pools:
        liveness = inputs.liveness(pool)
        guards = tuple((guard.why, guard.quarantined, guard.ramp < 1) for guard in inputs.guards.get(pool.name, ()))
        shadows = tuple(figures.diverted for figures in inputs.shadows.get(pool.name, ()))
        answers = tuple(inputs.answers.get(pool.name, ()))
        backup = inputs.backups.get(pool.name)
        signature.append((liveness.states, liveness.fail_open, answers, shadows, guards, backup))
        next_change = min(next_change, liveness.next_change)
    shared = inputs.shared_overrides and (inputs.shared_overrides["problem"], inputs.shared_overrides["pending"])
    others = inputs.shared_answers
    heard = others and (others["problem"], tuple(server["name"] for server in others["servers"]))
    signature.append((inputs.overrides, shared, heard, inputs.rejected and inputs.rejected.signature))
    return signature, next_change


def pool_document(inputs: StatusInputs, pool: Pool) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Return two values: the document of a pool without the members, and an iterator over the members' documents.

    The iterator lets a caller build a long document in short steps.
    """
    liveness = inputs.liveness(pool)
    answers = inputs.answers.get(pool.name) or [0] * len(pool.members)
    capacities, is_measured = inputs.capacities_of(pool)
    total, whole, backup = sum(answers), sum(capacities), inputs.backups.get(pool.name)
    head = {
        "name": pool.name,
        "zone": pool.config.zone,
        "policies": dict(pool.config.names),
        "backup": backup_document(backup),
        **site_documents(inputs.sites.get(pool.name), pool),
        "fail_open": bool(liveness.fail_open) and not (backup and backup.takes_all),
        "fail_open_reason": "" if backup and backup.takes_all else liveness.fail_open,
        "measured": is_measured,
        "next": inputs.upcoming(pool),
        "shadow": [_shadow(pool, figures) for figures in inputs.shadows.get(pool.name, ())],
    }
    members = (
        {
            "name": member.name,
            "addresses": member.addresses,
            "joined": member.joined,
            "state": state,
            "reason": reason(state, reading, overrides, inputs.now, pool.name),
            "guard": guard.text(inputs.now),
            "answers": count,
            "share": round(count / total, 4) if total else 0.0,
            "capacity": round(capacity, 3) if capacities else None,
            "capacity_share": round(capacity / whole, 4) if whole else None,
            "overrides": [override.document() for override in overrides],
            **_reported(reading, inputs.now, pool.name),
            "score_parts": score_parts(reading, inputs.parts) if reading else {},
        }
        for member, reading, state, overrides, guard, count, capacity in zip(
            pool.members,
            inputs.readings(pool),
            liveness.states,
            (inputs.overrides.of(pool.name, member.full_name) for member in pool.members),
            inputs.guards_of(pool),
            answers,
            capacities or (0.0,) * len(pool.members),
            strict=True,
        )
    )
    return head, members


def _shadow(pool: Pool, figures: ShadowStatistics) -> dict[str, Any]:
    total = sum(figures.answers)
    by_member = list(zip((member.name for member in pool.members), figures.answers, strict=True))
    return {
        "policy": figures.live,
        "shadow": figures.policy,
        "score": figures.score or None,
        "answers": dict(by_member),
        "share": {name: round(count / total, 4) if total else 0.0 for name, count in by_member},
        "diverted": figures.diverted,
        "diverted_share": round(figures.diverted / total, 4) if total else 0.0,
    }


def _reported(reading: Reading | None, now: float, pool: str) -> dict[str, Any]:
    if reading is None:
        return {"score": None, "age_s": None, "interval_s": None, "metrics": {}, "alarm": "", "gone": False}
    return {
        "score": reading.score,
        **({} if reading.shadow_score is None else {"shadow_score": reading.shadow_score}),
        "age_s": round(max(0.0, now - reading.received), 3),
        "interval_s": reading.interval,
        "metrics": reading.metrics,
        "alarm": reading.alarm,
        "gone": reading.gone,
        **({"check_failed": failure} if (failure := reading.failure(pool)) else {}),
    }


class ReportChanges:
    """Builds the short documents that are sent to followers when reports have changed the data of members.

    Each short document has the structure of the status document, but contains only changed members and only keys that a
    report can change. Only readings are compared, to limit the work when ten thousand members change every second.
    """

    def __init__(self, farm: Farm) -> None:
        self.farm = farm
        self.is_native = AVAILABLE and farm.config.server.plane != "python"
        self._places: dict[str, list[tuple[str, str, str]]] = {}  # full name -> pool, zone, name
        for pool in farm.pools:
            for member in pool.members:
                self._places.setdefault(member.full_name, []).append((pool.name, pool.config.zone, member.name))

    def build(self, members: Iterable[str], readings: Mapping[str, Reading], now: float) -> dict[str, Any]:
        """Return the document for ``members`` (full names) with their ``readings`` at ``now`` (monotonic seconds)."""
        pools: dict[str, dict[str, Any]] = {}
        for full_name in members:
            for pool, zone, name in self._places.get(full_name, ()):
                document = pools.setdefault(pool, {"name": pool, "zone": zone, "members": []})
                document["members"].append({"name": name, **_reported(readings.get(full_name), now, pool)})
        return {"pools": list(pools.values())}

    def encode(self, members: Sequence[str], readings: Mapping[str, Reading], now: float) -> bytes:
        """Return the document of ``build`` as a single line of JSON."""
        if self.is_native and isinstance(readings, dict):
            found = lbdns_native.encode_changes(list(members), readings, self._places, now)
            if found is not None:
                return found
        return to_json(self.build(members, readings, now))


def overrides_document(overrides: Overrides) -> dict[str, Any]:
    """Return all overrides as plain data, for programs that follow this collector's event stream."""
    return {"overrides": [override.document() for override in overrides.items]}
