"""Combines the counters of one or more answering processes into one object. Such objects can be added together.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, TypeVar

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.dns_constants import TYPE_NAMES, Rcode
from lbdns.answering.pool_cursors import all_totals, order_cursors
from lbdns.counting.response_times import BOUNDS, ResponseTimes

K = TypeVar("K")

_BUCKETS: Final = len(BOUNDS) + 1


@dataclass(frozen=True, slots=True)
class AnswerCounters:
    """The counters of one process, or the totals of several processes.

    The name of each field is also its key in the stat file. The caller must include the counters of processes that have
    ended, so that totals never decrease. ``levels`` contains gauges; their totals include only processes that are still
    running.
    """

    # Queries: zone, type, transport, rcode
    asked: Mapping[tuple[str, int, str, int], int] = field(default_factory=dict)
    durations: tuple[int, ...] = (0,) * _BUCKETS  # queries by bucket of their response time
    seconds: float = 0.0  # sum of all response times
    answers: Mapping[tuple[str, str, str], int] = field(default_factory=dict)  # pool, policy, member's full name
    named: Mapping[str, int] = field(default_factory=dict)  # other counters, such as "unsent"
    # Selections by shadow policies: pool, policy, shadow, member's full name. ``diverted`` counts those that differ
    # from the real selections
    shadow_answers: Mapping[tuple[str, str, str, str], int] = field(default_factory=dict)
    diverted: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    levels: Mapping[str, int] = field(default_factory=dict)  # gauges, such as "tcp_open"
    # Event loop lag: checks by kind of process and upper end of the bucket (microseconds, 0 for the last), and the sum
    # of all lags in microseconds by kind of process
    lag: Mapping[tuple[str, int], int] = field(default_factory=dict)
    lag_us: Mapping[str, int] = field(default_factory=dict)
    fail_open_ms: Mapping[str, int] = field(default_factory=dict)  # time for which each pool failed open
    # Answers of pools with sites: pool, order of the client's sites (separated by spaces), site of the member
    site_answers: Mapping[tuple[str, str, str], int] = field(default_factory=dict)

    @property
    def queries(self) -> int:
        return sum(self.durations)

    def by_pool(self) -> dict[str, Counter[str]]:
        """Return the number of answers that have named each member of each pool.

        Counts are keyed by the members' full names and summed over all policies.
        """
        found: dict[str, Counter[str]] = {}
        for (pool, _, member), count in self.answers.items():
            found.setdefault(pool, Counter())[member] += count
        return found

    def site_answers_of(self, pool: str) -> Mapping[tuple[str, str], int]:
        """Return the number of a pool's answers, keyed by the order of the client's sites and the member's site."""
        return {(order, site): n for (name, order, site), n in self.site_answers.items() if name == pool}

    def __add__(self, other: AnswerCounters) -> AnswerCounters:
        return AnswerCounters(
            durations=tuple(map(sum, zip(self.durations, other.durations, strict=True))),
            seconds=self.seconds + other.seconds,
            **{name: added(getattr(self, name), getattr(other, name)) for name in _MAPPINGS},
        )

    def beyond(self, other: AnswerCounters) -> AnswerCounters:
        """Subtract ``other`` from these counters, and return the differences. Negative differences become 0.

        The result has no ``levels``.
        """
        return AnswerCounters(
            durations=tuple(max(0, one - two) for one, two in zip(self.durations, other.durations, strict=True)),
            seconds=max(0.0, self.seconds - other.seconds),
            **{name: _beyond(getattr(self, name), getattr(other, name)) for name in _MAPPINGS if name != "levels"},
        )

    def ended(self) -> AnswerCounters:
        """Return the counters without ``levels``, because gauges are meaningless after the process has ended."""
        return replace(self, levels={}) if self.levels else self

    def state(self) -> dict[str, Any]:
        """Return the counters as data that msgpack can encode.

        ``read_counters`` converts the data back into counters.
        """
        return {
            "durations": list(self.durations),
            "seconds": self.seconds,
            **{name: dict(getattr(self, name)) for name in _BY_NAME},
            **{name: [[*key, count] for key, count in getattr(self, name).items()] for name in _BY_KEYS},
        }


_BY_KEYS: Final = ("asked", "answers", "shadow_answers", "diverted", "lag", "site_answers")
_BY_NAME: Final = ("named", "levels", "lag_us", "fail_open_ms")
_MAPPINGS: Final = (*_BY_KEYS, *_BY_NAME)
NO_COUNTS: Final = AnswerCounters()
NO_ANSWERS: Final[Counter[str]] = Counter()


def read_counters(state: Any) -> AnswerCounters:
    """Return the counters in ``state``, a result of ``AnswerCounters.state``.

    Raises ValueError if ``state`` is malformed.
    """
    try:
        durations = tuple(map(read_count, state["durations"]))
        return AnswerCounters(
            {(str(z), read_count(t), str(way), read_count(r)): read_count(n) for z, t, way, r, n in state["asked"]},
            # Another version may have other buckets; the last bucket then gets the sum
            durations if len(durations) == _BUCKETS else (*(0,) * (_BUCKETS - 1), sum(durations)),
            float(state["seconds"]),
            {(str(pool), str(policy), str(member)): read_count(n) for pool, policy, member, n in state["answers"]},
            _read_named(state["named"]),
            # Older servers, which this one may replace, lack these counters
            {(str(p), str(q), str(s), str(m)): read_count(n) for p, q, s, m, n in state.get("shadow_answers", ())},
            {(str(pool), str(policy), str(s)): read_count(n) for pool, policy, s, n in state.get("diverted", ())},
            _read_named(state.get("levels", {})),
            {(str(process), read_count(bound)): read_count(n) for process, bound, n in state.get("lag", ())},
            _read_named(state.get("lag_us", {})),
            _read_named(state.get("fail_open_ms", {})),
            {(str(p), str(o), str(s)): read_count(n) for p, o, s, n in state.get("site_answers", ())},
        )
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"not valid counters: {error!r}") from None


def count_answers(
    table: AnswerTable, response_times: ResponseTimes, named: Mapping[str, int], levels: Mapping[str, int] | None = None
) -> AnswerCounters:
    """Return the counters of one answering process, including the given counters ``named`` and ``levels``."""
    answers = count_selections(table)
    return AnswerCounters(
        table.queries(),
        tuple(response_times.counts),
        response_times.total,
        answers,
        dict(named),
        levels=dict(levels or {}),
        site_answers=count_site_answers(table),
    )


def count_selections(table: AnswerTable) -> dict[tuple[str, str, str], int]:
    """Return how many times each policy has selected each member, keyed by pool, policy and full name."""
    answers: dict[tuple[str, str, str], int] = {}
    pools = {pool.name: pool for pool in table.farm.pools}
    for (pool, policy), cursor in table.cursors.items():
        for member, count in zip(pools[pool].selectable, all_totals(cursor), strict=True):
            answers[pool, policy, member.full_name] = count
    return answers


def count_site_answers(table: AnswerTable) -> dict[tuple[str, str, str], int]:
    """Return the answers of pools with sites, keyed by pool, order of the client's sites, and site of the member."""
    answers: dict[tuple[str, str, str], int] = {}
    pools = {pool.name: pool.sites for pool in table.farm.pools}
    for (pool, _), cursor in table.cursors.items():
        if (sites := pools[pool]) is None:
            continue
        for order, part in zip(sites.orders, order_cursors(cursor), strict=True):
            totals = part.totals()
            for site, members in sites.members.items():
                key = pool, " ".join(order), site
                answers[key] = answers.get(key, 0) + sum(totals[i] for i in members)
    return answers


def by_type_and_rcode(*asked: Mapping[tuple[str, int, str, int], int]) -> tuple[Counter[str], Counter[str]]:
    """Return two counters: the number of queries by type name, and the number of responses by RCODE name.

    Types that are not in TYPE_NAMES are counted as "other".
    """
    types, rcodes = Counter[str](), Counter[str]()
    for (_, qtype, _, rcode), count in chain.from_iterable(counts.items() for counts in asked):
        types[TYPE_NAMES.get(qtype, "other")] += count
        rcodes[Rcode(rcode).name] += count
    return types, rcodes


def added(one: Mapping[K, int], other: Mapping[K, int]) -> Mapping[K, int]:
    """Return the sum of two mappings of counts. The result may be one of the arguments."""
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
    """Return ``value`` if it is a valid count. Raises ValueError if ``value`` is not a non-negative integer."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a valid count")
    return value
