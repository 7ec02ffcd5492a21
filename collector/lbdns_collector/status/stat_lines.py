"""The lines of the stat file in both formats: the table of members, and the lines of the 1999 study."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from lbdns.config.collector_section import StatFormat
from lbdns.model.farm import Farm, Member
from lbdns.model.liveness import State, pool_liveness
from lbdns.model.overrides import Overrides
from lbdns.model.snapshot import Reading, Snapshot
from lbdns_shared.metric_catalogue import CATALOGUE

COLUMNS: Final = ("member", "pool", "state", "score", "age", *CATALOGUE)

Render = Callable[[Farm, Snapshot, Overrides, float], str]


def render(farm: Farm, snapshot: Snapshot, overrides: Overrides, now: float) -> str:
    """Return the stat file's text at ``now`` (monotonic seconds): a line of column names, then one line per member.

    Ages are in seconds, and metrics are in the units of the metric catalogue. Unknown values are empty fields.
    """
    lines = ["# " + ":".join(COLUMNS)]
    for pool, member, reading, state in _members(farm, snapshot, overrides, now):
        lines.append(":".join((member.name, _plain(pool), state, *_fields(reading, now))))
    return "\n".join(lines) + "\n"


def render_1999(farm: Farm, snapshot: Snapshot, overrides: Overrides, now: float) -> str:
    """Return the stat file's text with one line ``host:w:cu:ap:rq:so:rps:b:i`` per host, and no line of column names.

    Only the order and the names of the fields are known from the 1999 study, whose score has six terms. This function
    takes ``w`` for the weight, ``cu`` for the CPU use in percent, ``ap`` for the average ping in ms, ``rq`` for the run
    queue, ``rps`` for requests/s, and ``b`` and ``i`` for busy and idle workers. ``so`` remains for the sixth term, the
    scan rate. The weight is the score, or 0 if the host is not usable in any pool. Unknown values are empty fields.
    """
    hosts: dict[str, tuple[Member, Reading | None, bool]] = {}
    for _, member, reading, state in _members(farm, snapshot, overrides, now):
        usable = state == "usable" or (member.full_name in hosts and hosts[member.full_name][2])
        hosts[member.full_name] = member, reading, usable
    return "".join(f"{member.name}:{_line_1999(reading, usable)}\n" for member, reading, usable in hosts.values())


def _line_1999(reading: Reading | None, usable: bool) -> str:
    metrics = reading.metrics if reading is not None else {}
    score = reading.score if reading is not None else None
    weight = "0" if not usable else "" if score is None else str(score)
    used = _number(100.0 - metrics["cpu_idle"]) if "cpu_idle" in metrics else ""
    rest = ("gateway_ping", "run_queue", "scan_rate", "requests_per_s", "busy_workers", "idle_workers")
    return ":".join((weight, used, *(_metric(metrics, name) for name in rest)))


RENDERERS: Final[Mapping[StatFormat, Render]] = {"lbdns": render, "1999": render_1999}


def _members(
    farm: Farm, snapshot: Snapshot, overrides: Overrides, now: float
) -> Iterator[tuple[str, Member, Reading | None, State]]:
    """Yield the pool's name, the member, its newest reading and its state, for each member of each pool."""
    for pool in farm.pools:
        liveness = pool_liveness(pool, snapshot, overrides, now, farm.config.collector.stale_after)
        for member, state in zip(pool.members, liveness.states, strict=True):
            yield pool.name, member, snapshot.readings.get(member.full_name), state


def _fields(reading: Reading | None, now: float) -> list[str]:
    if reading is None:
        return [""] * (len(COLUMNS) - 3)
    metrics = [_metric(reading.metrics, name) for name in CATALOGUE]
    return ["" if reading.score is None else str(reading.score), _number(round(now - reading.received, 1)), *metrics]


def _metric(metrics: Mapping[str, float], name: str) -> str:
    return _number(metrics[name]) if name in metrics else ""


def _number(value: float) -> str:
    """Return a number as text: in decimal notation, or with an exponent if the number is at least 1e15."""
    if abs(value) >= 1e15:
        return repr(value)
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _plain(text: str) -> str:
    """Return the name of a pool, with each colon and each unprintable character replaced by ``_``."""
    return "".join("_" if char == ":" or not char.isprintable() else char for char in text)
