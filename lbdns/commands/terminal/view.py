"""What of the board is looked at, and what the keys do to that. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lbdns.commands.terminal.board import Board, Series

Member = Mapping[str, Any]
_NONE: Final = float("-inf")


def _of(value: float | None) -> float:
    return _NONE if value is None else float(value)


#: Heading -> what members are sorted by, and whether the greatest comes first.
SORTS: Final[Mapping[str, tuple[Callable[[Member, Series], Any], bool]]] = {
    "configuration": (lambda member, series: 0, False),
    "member": (lambda member, series: str(member["name"]), False),
    "state": (lambda member, series: str(member["state"]), False),
    "score": (lambda member, series: _of(member["score"]), True),
    "age": (lambda member, series: _of(member["age_s"]), True),
    "share": (lambda member, series: _of(member["share"]), True),
    "answers/s": (lambda member, series: _of(series.answers_per_s), True),
    "cpu": (lambda member, series: _of(series.cpu[-1] if series.cpu else None), True),
}
_ORDER: Final = tuple(SORTS)

HELP: Final = (
    ("q", "quit"),
    ("up, down", "scroll by a member"),
    ("PgUp, PgDn", "scroll by a screen"),
    ("Home, End", "to the first, to the last"),
    ("s", "sort by the next column"),
    ("r", "sort the other way round"),
    ("p", "the next pool"),
    ("/", "only members with these letters in name or state; Esc ends it"),
    ("?", "this"),
)


@dataclass(slots=True)
class View:
    """``rows`` is how many members the screen has room for, as it was drawn last."""

    pool: str = ""  # empty: the first one
    sort: str = _ORDER[0]
    reverse: bool = False
    wanted: str = ""  # letters of a name or a state
    typing: bool = False
    help: bool = False
    offset: int = 0
    rows: int = 1
    ended: bool = False

    def selected(self, board: Board) -> Mapping[str, Any] | None:
        """The pool that is looked at; the first one if it is gone."""
        pools: Sequence[Mapping[str, Any]] = board.status["pools"] if board.status else ()
        return next((pool for pool in pools if pool["name"] == self.pool), pools[0] if pools else None)

    def members(self, board: Board) -> list[tuple[Member, Series]]:
        """Those of the pool that are wanted, sorted."""
        pool = self.selected(board)
        if pool is None:
            return []
        wanted = self.wanted.lower()
        found = [
            (member, board.series.get((pool["name"], member["name"])) or Series())
            for member in pool["members"]
            if wanted in str(member["name"]).lower() or wanted in str(member["state"])
        ]
        key, greatest_first = SORTS[self.sort]
        found.sort(key=lambda row: key(*row), reverse=greatest_first)
        return found[::-1] if self.reverse else found

    def press(self, key: str, board: Board) -> None:
        """Do what a key stands for; nothing if it stands for nothing."""
        if self.typing:
            self._type(key)
        elif key in ("q", "Q"):
            self.ended = True
        elif self.help:
            self.help = False
        elif key in ("?", "h"):
            self.help = True
        elif key == "/":
            self.typing, self.wanted, self.offset = True, "", 0
        elif key == "escape":
            self.wanted, self.offset = "", 0
        elif key == "s":
            self.sort, self.offset = _ORDER[(_ORDER.index(self.sort) + 1) % len(_ORDER)], 0
        elif key == "r":
            self.reverse, self.offset = not self.reverse, 0
        elif key == "p":
            self._next_pool(board)
        else:
            self._scroll(key, len(self.members(board)))

    def _type(self, key: str) -> None:
        if key in ("enter", "escape"):
            self.typing = False
            self.wanted = "" if key == "escape" else self.wanted
        elif key == "backspace":
            self.wanted = self.wanted[:-1]
        elif len(key) == 1:
            self.wanted += key

    def _next_pool(self, board: Board) -> None:
        names = [pool["name"] for pool in board.status["pools"]] if board.status else []
        selected = self.selected(board)
        if selected is not None:
            self.pool, self.offset = names[(names.index(selected["name"]) + 1) % len(names)], 0

    def _scroll(self, key: str, members: int) -> None:
        steps = {"up": -1, "down": 1, "pageup": -self.rows, "pagedown": self.rows, "home": -members, "end": members}
        self.offset = max(0, min(self.offset + steps.get(key, 0), members - self.rows))
