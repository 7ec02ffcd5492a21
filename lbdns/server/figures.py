"""What answering processes count, as one value that adds up: over processes, and over those that have ended. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from lbdns.answering.constants import TYPE_NAMES, Rcode
from lbdns.answering.table import Table
from lbdns.server.net.durations import BOUNDS, Durations

K = TypeVar("K")

_BUCKETS: Final = len(BOUNDS) + 1


@dataclass(frozen=True, slots=True)
class Figures:
    """Counters. None of them ever falls as long as whoever keeps them adds what is gone to what is there.

    But ``levels``, which tell how much there is just now: they add up over processes, and end with their process.
    """

    asked: Mapping[tuple[str, int, str, int], int] = field(default_factory=dict)  # zone, type, transport, rcode
    durations: tuple[int, ...] = (0,) * _BUCKETS  # queries by bucket
    seconds: float = 0.0  # spent on them
    answers: Mapping[tuple[str, str, str], int] = field(default_factory=dict)  # pool, policy, member's full name
    named: Mapping[str, int] = field(default_factory=dict)  # everything else, such as "unsent"
    # Of what is tried beside the policies: pool, policy, shadow, member's full name; and hand-outs it would divert
    shadow_answers: Mapping[tuple[str, str, str, str], int] = field(default_factory=dict)
    diverted: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    levels: Mapping[str, int] = field(default_factory=dict)  # such as "tcp_open"
    # How late event loops were: looks by kind of process and upper end of the bucket (microseconds, 0 for none); and by
    # kind of process, the microseconds they were late in all
    lag: Mapping[tuple[str, int], int] = field(default_factory=dict)
    lag_us: Mapping[str, int] = field(default_factory=dict)
    fail_open_ms: Mapping[str, int] = field(default_factory=dict)  # by pool, how long it failed open

    @property
    def queries(self) -> int:
        """Queries read."""
        return sum(self.durations)

    def by_pool(self) -> dict[str, Counter[str]]:
        """By pool, how often each member (full name) was handed out, whatever the policy."""
        found: dict[str, Counter[str]] = {}
        for (pool, _, member), count in self.answers.items():
            found.setdefault(pool, Counter())[member] += count
        return found

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            added(self.asked, other.asked),
            tuple(map(sum, zip(self.durations, other.durations, strict=True))),
            self.seconds + other.seconds,
            added(self.answers, other.answers),
            added(self.named, other.named),
            added(self.shadow_answers, other.shadow_answers),
            added(self.diverted, other.diverted),
            added(self.levels, other.levels),
            added(self.lag, other.lag),
            added(self.lag_us, other.lag_us),
            added(self.fail_open_ms, other.fail_open_ms),
        )

    def beyond(self, other: Figures) -> Figures:
        """What these count more than ``other``; nothing where they count less, and no levels."""
        return Figures(
            _beyond(self.asked, other.asked),
            tuple(max(0, one - two) for one, two in zip(self.durations, other.durations, strict=True)),
            max(0.0, self.seconds - other.seconds),
            _beyond(self.answers, other.answers),
            _beyond(self.named, other.named),
            _beyond(self.shadow_answers, other.shadow_answers),
            _beyond(self.diverted, other.diverted),
            {},
            _beyond(self.lag, other.lag),
            _beyond(self.lag_us, other.lag_us),
            _beyond(self.fail_open_ms, other.fail_open_ms),
        )

    def ended(self) -> Figures:
        """What remains of them when their process has ended."""
        return replace(self, levels={}) if self.levels else self

    def state(self) -> dict[str, Any]:
        """As plain data, for msgpack."""
        return {
            "asked": [[*key, count] for key, count in self.asked.items()],
            "durations": list(self.durations),
            "seconds": self.seconds,
            "answers": [[*key, count] for key, count in self.answers.items()],
            "named": dict(self.named),
            "shadow_answers": [[*key, count] for key, count in self.shadow_answers.items()],
            "diverted": [[*key, count] for key, count in self.diverted.items()],
            "levels": dict(self.levels),
            "lag": [[*key, count] for key, count in self.lag.items()],
            "lag_us": dict(self.lag_us),
            "fail_open_ms": dict(self.fail_open_ms),
        }


NOTHING: Final = Figures()
NO_ANSWERS: Final[Counter[str]] = Counter()


def total(all_figures: Iterable[Figures]) -> Figures:
    return sum(all_figures, NOTHING)


def read_figures(state: Any) -> Figures:
    """The figures of a ``state``. Raises ValueError if it is none."""
    try:
        durations = tuple(map(read_count, state["durations"]))
        return Figures(
            {(str(z), read_count(t), str(way), read_count(r)): read_count(n) for z, t, way, r, n in state["asked"]},
            # Another version may have other buckets: then the sum is kept, in the last one
            durations if len(durations) == _BUCKETS else (*(0,) * (_BUCKETS - 1), sum(durations)),
            float(state["seconds"]),
            {(str(pool), str(policy), str(member)): read_count(n) for pool, policy, member, n in state["answers"]},
            _read_named(state["named"]),
            # A server whose place is taken may be one that counted none of these yet
            {(str(p), str(q), str(s), str(m)): read_count(n) for p, q, s, m, n in state.get("shadow_answers", ())},
            {(str(pool), str(policy), str(s)): read_count(n) for pool, policy, s, n in state.get("diverted", ())},
            _read_named(state.get("levels", {})),
            {(str(process), read_count(bound)): read_count(n) for process, bound, n in state.get("lag", ())},
            _read_named(state.get("lag_us", {})),
            _read_named(state.get("fail_open_ms", {})),
        )
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"no figures: {error!r}") from None


def figures_of(
    table: Table, durations: Durations, named: Mapping[str, int], levels: Mapping[str, int] | None = None
) -> Figures:
    """What one answering process counted."""
    answers: dict[tuple[str, str, str], int] = {}
    for pool in table.farm.pools:
        for policy in dict.fromkeys(pool.owners.values()):
            totals = table.handouts[pool.name, policy].totals()
            for member, count in zip(pool.members, totals, strict=True):
                answers[pool.name, policy, member.full_name] = count
    return Figures(
        table.queries(), tuple(durations.counts), durations.total, answers, dict(named), levels=dict(levels or {})
    )


def by_type_and_rcode(*asked: Mapping[tuple[str, int, str, int], int]) -> tuple[dict[str, int], dict[str, int]]:
    """Queries by the name of their type and responses by the name of their rcode; types outside the well-known are
    "other"."""
    types: dict[str, int] = {}
    rcodes: dict[str, int] = {}
    for counts in asked:
        for (_, qtype, _, rcode), count in counts.items():
            name, code = TYPE_NAMES.get(qtype, "other"), Rcode(rcode).name
            types[name] = types.get(name, 0) + count
            rcodes[code] = rcodes.get(code, 0) + count
    return types, rcodes


def added(one: Mapping[K, int], other: Mapping[K, int]) -> Mapping[K, int]:
    if not one or not other:
        return one or other
    joined = dict(one)
    for key, count in other.items():
        joined[key] = joined.get(key, 0) + count
    return joined


def _beyond(one: Mapping[K, int], other: Mapping[K, int]) -> Mapping[K, int]:
    return {key: count - other.get(key, 0) for key, count in one.items() if count > other.get(key, 0)}


def _read_named(state: Any) -> dict[str, int]:
    return {str(name): read_count(n) for name, n in state.items()}


def read_count(value: Any) -> int:
    """A count that came as plain data. Raises ValueError if it is none."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value
