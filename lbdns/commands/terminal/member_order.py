"""Orders a pool's members by trouble, filters members by state, and summarizes a pool in one line. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from lbdns.commands.terminal.printable import STATES, printable
from lbdns.text.counts import counted

Document = Mapping[str, Any]

QUARANTINED: Final = "quarantined"
NEEDED: Final = "failing but needed"  # the pool cannot do without it
SLOW_START: Final = "slow start"
OVERRIDDEN: Final = "overridden"
#: From most to least in need of attention. Members of all other conditions are in order.
_CONDITIONS: Final = ("silent", "alarm", QUARANTINED, NEEDED, "unknown", "drained", SLOW_START, OVERRIDDEN)
_STYLES: Final = {QUARANTINED: "red", NEEDED: "red", SLOW_START: "yellow", OVERRIDDEN: "yellow", **STATES}


def condition(member: Document) -> str:
    """Return the state of a member or, if the member is usable, the guard rail or override that limits the member."""
    state, guard = str(member["state"]), str(member.get("guard") or "")
    if state != "usable":
        return state
    if guard:
        return SLOW_START if guard.startswith("ramp") else QUARANTINED if guard.startswith(QUARANTINED) else NEEDED
    return OVERRIDDEN if member.get("overrides") else state


def by_trouble(members: Sequence[Document]) -> list[Document]:
    """Return the members, with those in trouble first. Members in the same condition are ordered by share."""
    return sorted(members, key=lambda member: (_rank(member), -float(member["share"])))


def _rank(member: Document) -> int:
    found = condition(member)
    return _CONDITIONS.index(found) if found in _CONDITIONS else len(_CONDITIONS)


def in_state(members: Sequence[Document], states: Collection[str]) -> list[Document]:
    """Return the members that have one of the states or conditions, or all members if ``states`` is empty."""
    return [member for member in members if not states or str(member["state"]) in states or condition(member) in states]


def pool_summary(pool: Document) -> Text:
    """Return a line such as ``pool web: 196 of 200 members usable; 3 silent, 1 drained, 2 slow start``."""
    members = pool["members"]
    usable = sum(member["state"] == "usable" for member in members)
    counts = Counter(map(condition, members))
    line = Text(f"pool {printable(pool['name'])}: {usable} of {counted(len(members), 'member')} usable")
    found = [name for name in _CONDITIONS if counts[name]]
    for at, name in enumerate(found):
        line.append(", " if at else "; ").append(f"{counts[name]} {name}", _STYLES[name])
    if pool["fail_open"]:
        line.append("; fail open", "bold red")
    return line
