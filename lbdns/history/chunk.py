"""Moments in a row, made into rows of a table: each column of each pool, over all of them, is one blob. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from lbdns.history.codec import ABSENT, encode, encode_texts
from lbdns.history.columns import COUNTS, CUMULATIVE, EXACT, RAW_ONLY, SERVER, Group, Moment, Row
from lbdns.history.tiers import RAW, Tier

TIME: Final = "time"  # of the server: Unix seconds
ALARM: Final = "alarm"  # of a pool, raw: texts
SECONDS: Final = "seconds"  # of the server: since the moment before


@dataclass(frozen=True, slots=True)
class Cell:
    """A column of a chunk: in ``blob`` the values member by member, each over all times; ``names`` are the members."""

    pool: str
    column: str
    names: tuple[str, ...]
    blob: bytes


@dataclass(slots=True)
class Chunk:
    """Moments of one tier with the same members."""

    tier: Tier
    moments: list[Moment] = field(default_factory=list)

    @property
    def start(self) -> float:
        return self.moments[0].time

    def takes(self, moment: Moment) -> bool:
        """Whether ``moment`` can go on it: not if members came or went, or the clock was set back."""
        if not self.moments:
            return True
        last = self.moments[-1]
        if not last.time < moment.time < self.start + self.tier.chunk:
            return False
        return last.groups.keys() == moment.groups.keys() and all(
            group.names == moment.groups[key].names for key, group in last.groups.items()
        )

    def cells(self) -> Iterator[Cell]:
        """All columns that say anything, one at a time: whoever asks may rest in between."""
        times, seconds = [m.time for m in self.moments], [m.seconds for m in self.moments]
        yield Cell(SERVER, TIME, (TIME,), encode(times, exact=True))
        yield Cell(SERVER, SECONDS, (SECONDS,), encode(seconds, exact=True))
        for (pool, _), groups in self._groups():
            names = groups[0].names
            none = [ABSENT] * len(names)
            for column in dict.fromkeys(chain.from_iterable(group.rows for group in groups)):
                rows = [group.rows.get(column, none) for group in groups]
                values = list(chain.from_iterable(zip(*rows, strict=True)))
                if any(x == x for x in values):
                    yield Cell(pool, column, names, encode(values, exact=column in self._exact))
        yield from self._alarms()

    def _groups(self) -> Iterator[tuple[tuple[str, str], list[Group]]]:
        for key in self.moments[0].groups:
            yield key, [moment.groups[key] for moment in self.moments]

    @property
    def _exact(self) -> frozenset[str]:
        return EXACT if self.tier is RAW else CUMULATIVE

    def _alarms(self) -> Iterator[Cell]:
        found: dict[str, list[tuple[int, int, str]]] = {}
        for at, moment in enumerate(self.moments):
            for (pool, member), text in moment.alarms.items():
                found.setdefault(pool, []).append((moment.groups[pool, ""].names.index(member), at, text))
        for pool, texts in found.items():
            yield Cell(pool, ALARM, self.moments[0].groups[pool, ""].names, encode_texts(texts))


class Means:
    """Gathers moments of one tier, and gives a moment of the next when its time is over."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._gathered: list[Moment] = []

    def take(self, moment: Moment) -> Moment | None:
        """The mean of those before, if ``moment`` is none of them any more."""
        found = None
        if self._gathered and self._slot(moment) != self._slot(self._gathered[0]):
            found = self.rest()
        self._gathered.append(moment)
        return found

    def rest(self) -> Moment | None:
        """The mean of what there is, and begin anew."""
        gathered, self._gathered = self._gathered, []
        return mean(gathered, self._slot(gathered[0]) * self._step) if gathered else None

    def _slot(self, moment: Moment) -> int:
        return int(moment.time // self._step)


def mean(moments: Sequence[Moment], time: float) -> Moment:
    """Of what is counted the sum, of what grows for ever the last, of everything else the mean of what was told. Where
    members came or went in between, only moments with those of the last one count."""
    groups = {}
    for key, last in moments[-1].groups.items():
        same = [m.groups[key].rows for m in moments if key in m.groups and m.groups[key].names == last.names]
        columns = dict.fromkeys(chain.from_iterable(same))
        groups[key] = Group(
            last.names,
            {c: _mean(c, [rows[c] for rows in same if c in rows]) for c in columns if c not in RAW_ONLY},
        )
    seconds = [moment.seconds for moment in moments if moment.seconds == moment.seconds]
    return Moment(time, sum(seconds) if seconds else ABSENT, groups)


def _mean(column: str, rows: Sequence[Row]) -> Row:
    """Of rows that follow one another, by member."""
    if column in CUMULATIVE:
        return [next((x for x in reversed(values) if x == x), ABSENT) for values in zip(*rows, strict=True)]
    share = 1.0 if column in COUNTS else 1 / len(rows)
    sums = list(map(sum, zip(*rows, strict=True)))
    found = [total * share for total in sums]
    for i, total in enumerate(sums):
        if total != total and (known := [row[i] for row in rows if row[i] == row[i]]):
            found[i] = sum(known) * (1.0 if column in COUNTS else 1 / len(known))
    return found
