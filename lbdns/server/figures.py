"""What answering processes count, as one value that adds up: over processes, and over those that have ended. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from lbdns.answering.table import Table
from lbdns.server.net.durations import BOUNDS, Durations

K = TypeVar("K")

_BUCKETS: Final = len(BOUNDS) + 1


@dataclass(frozen=True, slots=True)
class Figures:
    """Counters. None of them ever falls as long as whoever keeps them adds what is gone to what is there."""

    asked: Mapping[tuple[str, int, str, int], int] = field(default_factory=dict)  # zone, type, transport, rcode
    durations: tuple[int, ...] = (0,) * _BUCKETS  # queries by bucket
    seconds: float = 0.0  # spent on them
    answers: Mapping[tuple[str, str, str], int] = field(default_factory=dict)  # pool, policy, member's full name
    named: Mapping[str, int] = field(default_factory=dict)  # everything else, such as "unsent"

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
            _added(self.asked, other.asked),
            tuple(map(sum, zip(self.durations, other.durations, strict=True))),
            self.seconds + other.seconds,
            _added(self.answers, other.answers),
            _added(self.named, other.named),
        )

    def beyond(self, other: Figures) -> Figures:
        """What these count more than ``other``; nothing where they count less."""
        return Figures(
            _beyond(self.asked, other.asked),
            tuple(max(0, one - two) for one, two in zip(self.durations, other.durations, strict=True)),
            max(0.0, self.seconds - other.seconds),
            _beyond(self.answers, other.answers),
            _beyond(self.named, other.named),
        )

    def state(self) -> dict[str, Any]:
        """As plain data, for msgpack."""
        return {
            "asked": [[*key, count] for key, count in self.asked.items()],
            "durations": list(self.durations),
            "seconds": self.seconds,
            "answers": [[*key, count] for key, count in self.answers.items()],
            "named": dict(self.named),
        }


NOTHING: Final = Figures()
NO_ANSWERS: Final[Counter[str]] = Counter()


def total(all_figures: Iterable[Figures]) -> Figures:
    return sum(all_figures, NOTHING)


def read_figures(state: Any) -> Figures:
    """The figures of a ``state``. Raises ValueError if it is none."""
    try:
        durations = tuple(map(_count, state["durations"]))
        return Figures(
            {(str(z), _count(t), str(way), _count(r)): _count(n) for z, t, way, r, n in state["asked"]},
            # Another version may have other buckets: then the sum is kept, in the last one
            durations if len(durations) == _BUCKETS else (*(0,) * (_BUCKETS - 1), sum(durations)),
            float(state["seconds"]),
            {(str(pool), str(policy), str(member)): _count(n) for pool, policy, member, n in state["answers"]},
            {str(name): _count(n) for name, n in state["named"].items()},
        )
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"no figures: {error!r}") from None


def figures_of(table: Table, durations: Durations, named: Mapping[str, int]) -> Figures:
    """What one answering process counted."""
    answers: dict[tuple[str, str, str], int] = {}
    for pool in table.farm.pools:
        for policy in dict.fromkeys(pool.owners.values()):
            totals = table.handouts[pool.name, policy].totals()
            for member, count in zip(pool.members, totals, strict=True):
                answers[pool.name, policy, member.full_name] = count
    return Figures(table.queries(), tuple(durations.counts), durations.total, answers, dict(named))


def _added(one: Mapping[K, int], other: Mapping[K, int]) -> Mapping[K, int]:
    if not one or not other:
        return one or other
    joined = dict(one)
    for key, count in other.items():
        joined[key] = joined.get(key, 0) + count
    return joined


def _beyond(one: Mapping[K, int], other: Mapping[K, int]) -> Mapping[K, int]:
    return {key: count - other.get(key, 0) for key, count in one.items() if count > other.get(key, 0)}


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value
