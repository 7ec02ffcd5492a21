"""Sorts members so that those in trouble come first, filters members by state, and summarizes a pool in one line.
Pure."""

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
FORCED_DOWN: Final = "forced down"  # by an operator; the member's state is "alarm"
FULL: Final = "full"  # usable, but without spare capacity
SLOW_START: Final = "slow start"
OVERRIDDEN: Final = "overridden"
TROUBLE: Final = ("silent", "alarm", QUARANTINED, NEEDED, "unknown")
GUARDED: Final = (QUARANTINED, NEEDED, SLOW_START)  # the member's guard states why
#: From most to least in need of attention. Members of all other conditions are in order.
CONDITIONS: Final = (*TROUBLE, FULL, "drained", FORCED_DOWN, SLOW_START, OVERRIDDEN)
_STYLES: Final = {
    QUARANTINED: "red", NEEDED: "red", FULL: "yellow", FORCED_DOWN: "yellow", SLOW_START: "yellow",
    OVERRIDDEN: "yellow", **STATES,
}  # fmt: skip


def condition(member: Document) -> str:
    """Return a member's state, or a more specific condition if one applies.

    A usable member can be limited by a guard rail or an override, or have no spare capacity. A member in state "alarm"
    may have been forced down by an operator, or may be needed despite its alarm.
    """
    state, guard = str(member["state"]), str(member.get("guard") or "")
    if state == "alarm":
        if any(override["kind"] == "down" for override in member.get("overrides", ())):
            return FORCED_DOWN
        return NEEDED if guard.startswith("needed") else state
    if state != "usable":
        return state
    if guard:
        return SLOW_START if guard.startswith("ramp") else QUARANTINED if guard.startswith(QUARANTINED) else NEEDED
    if why_full(member):
        return FULL
    return OVERRIDDEN if member.get("overrides") else state


def why_full(member: Document) -> str:
    """Return why a member has no spare capacity; empty if it has some. The live page has the same rule (whyFull)."""
    metrics = member.get("metrics") or {}
    if metrics.get("idle_workers") == 0 and metrics.get("busy_workers", 0) > 0:
        return "full: every worker of its web server is busy"
    # Without parts, the score may be 0 because no metric of the score is known
    return "full: its score is 0" if member.get("score") == 0 and member.get("score_parts") else ""


def state_text(member: Document) -> Text:
    """Return the state as a table shows it: ``full`` for a usable member without spare capacity."""
    found = condition(member)
    state = found if found == FULL else str(member["state"])
    return Text(printable(state), _STYLES.get(state, ""))


def style_of(condition: str) -> str:
    """Return the style in which a terminal shows a condition."""
    return _STYLES.get(condition, "")


def by_trouble(members: Sequence[Document]) -> list[Document]:
    """Return the members, with those in trouble first. Members in the same condition are ordered by share."""
    return sorted(members, key=lambda member: (trouble_rank(member), -float(member["share"])))


def trouble_rank(member: Document) -> int:
    """Return a number that is lower for members in greater need of attention."""
    found = condition(member)
    return CONDITIONS.index(found) if found in CONDITIONS else len(CONDITIONS)


def in_state(members: Sequence[Document], states: Collection[str]) -> list[Document]:
    """Return the members that have one of the states or conditions, or all members if ``states`` is empty."""
    return [member for member in members if not states or str(member["state"]) in states or condition(member) in states]


def pool_summary(pool: Document) -> Text:
    """Return a line such as ``pool web: 196 of 200 members usable; 3 silent, 1 drained, 2 slow start``."""
    members = pool["members"]
    usable = sum(member["state"] == "usable" for member in members)
    line = Text(f"pool {printable(pool['name'])}: {usable} of {counted(len(members), 'member')} usable")
    line.append_text(condition_counts(members))
    if pool["fail_open"]:
        line.append("; fail open", "bold red")
    elif usable and all(why_full(member) for member in members if member["state"] == "usable"):
        line.append("; all full: add servers", "bold red")
    return line


def condition_counts(members: Sequence[Document]) -> Text:
    """Return a string such as ``; 3 silent, 1 drained``, or an empty string if every member is in normal operation."""
    counts = Counter(map(condition, members))
    text = Text()
    for at, name in enumerate(name for name in CONDITIONS if counts[name]):
        text.append(", " if at else "; ").append(f"{counts[name]} {name}", _STYLES[name])
    return text
