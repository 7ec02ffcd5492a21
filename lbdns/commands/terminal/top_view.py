"""The view of ``lbdns top``: pool, sort order, filter, scroll position, and the keys that change them. Sans-I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lbdns.commands.terminal.member_order import condition, trouble_rank
from lbdns.commands.terminal.top_data import Document, Series, TopData, newest


def _rank(value: float | None) -> float:
    return float("-inf") if value is None else float(value)


#: Column heading -> sort key of members, and whether the greatest comes first.
SORTS: Final[Mapping[str, tuple[Callable[[Document, Series], Any], bool]]] = {
    "configuration": (lambda member, series: 0, False),
    "member": (lambda member, series: str(member["name"]), False),
    "state": (lambda member, series: trouble_rank(member), False),
    "score": (lambda member, series: _rank(member["score"]), True),
    "age": (lambda member, series: _rank(member["age_s"]), True),
    "share": (lambda member, series: _rank(member["share"]), True),
    "answers/s": (lambda member, series: _rank(newest(series.answers)), True),
    "cpu": (lambda member, series: _rank(newest(series.cpu)), True),
}
_ORDER: Final = tuple(SORTS)
#: Key and what it does.
HELP: Final = (
    ("q", "quit"),
    ("up, down", "scroll by one member"),
    ("PgUp, PgDn", "scroll by one screen"),
    ("Home, End", "go to the first or last member"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("p", "show the next pool"),
    ("/", "filter members by name, state or condition (Esc clears the filter)"),
    ("?", "show this help"),
)


@dataclass(slots=True)
class View:
    """The choices that the user has made in ``lbdns top``. ``rows`` is the number of member rows in the last frame."""

    pool: str = ""  # empty: the first pool
    sort: str = _ORDER[0]
    reverse: bool = False
    filter: str = ""  # part of a name or a state; empty: no filter
    typing: bool = False
    help: bool = False
    offset: int = 0
    rows: int = 1
    ended: bool = False

    def selected(self, data: TopData) -> Document | None:
        """Return the displayed pool; if this pool no longer exists, return the first one."""
        pools: Sequence[Document] = data.status["pools"] if data.status else ()
        return next((pool for pool in pools if pool["name"] == self.pool), pools[0] if pools else None)

    def members(self, data: TopData) -> list[tuple[Document, Series]]:
        """Return the sorted members of the displayed pool that match the filter."""
        pool = self.selected(data)
        if pool is None:
            return []
        filter = self.filter.lower()
        found = [
            (member, data.series_of(pool, member))
            for member in pool["members"]
            if any(filter in text for text in (str(member["name"]).lower(), str(member["state"]), condition(member)))
        ]
        key, greatest_first = SORTS[self.sort]
        found.sort(key=lambda row: key(*row), reverse=greatest_first)
        return found[::-1] if self.reverse else found

    def press(self, key: str, data: TopData) -> None:
        """Execute the command that is assigned to a key. Unknown keys are ignored."""
        if self.typing:
            self._type(key)
        elif key in ("q", "Q"):
            self.ended = True
        elif self.help:
            self.help = False
        elif key in ("?", "h"):
            self.help = True
        elif key == "/":
            self.typing, self.filter, self.offset = True, "", 0
        elif key == "escape":
            self.filter, self.offset = "", 0
        elif key == "s":
            self.sort, self.offset = _ORDER[(_ORDER.index(self.sort) + 1) % len(_ORDER)], 0
        elif key == "r":
            self.reverse, self.offset = not self.reverse, 0
        elif key == "p":
            self._next_pool(data)
        else:
            self._scroll(key, len(self.members(data)))

    def _type(self, key: str) -> None:
        if key in ("enter", "escape"):
            self.typing = False
            self.filter = "" if key == "escape" else self.filter
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1:
            self.filter += key

    def _next_pool(self, data: TopData) -> None:
        names = [pool["name"] for pool in data.status["pools"]] if data.status else []
        selected = self.selected(data)
        if selected is not None:
            self.pool, self.offset = names[(names.index(selected["name"]) + 1) % len(names)], 0

    def _scroll(self, key: str, members: int) -> None:
        steps = {"up": -1, "down": 1, "pageup": -self.rows, "pagedown": self.rows, "home": -members, "end": members}
        self.offset = max(0, min(self.offset + steps.get(key, 0), members - self.rows))
