"""Notes about members in trouble, full members, and limited members (by an operator or slow start), one line each.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from lbdns.commands.terminal.member_order import (
    CONDITIONS,
    FULL,
    GUARDED,
    TROUBLE,
    Document,
    by_trouble,
    condition,
    style_of,
    why_full,
)  # fmt: skip
from lbdns.commands.terminal.printable import override_text, printable

MOST_NOTES: Final = 3  # of each condition
MOST_NAMES: Final = 3  # in front of a note that several members share


def problem_notes(members: Sequence[Document], now: float) -> Iterator[Text]:
    """Yield notes about members in trouble. ``now`` is in Unix seconds."""
    return _notes([member for member in members if condition(member) in TROUBLE], now)


def other_notes(members: Sequence[Document], now: float) -> Iterator[Text]:
    """Yield a note about each member that is full, or limited by an operator or slow start. ``now`` is in Unix time."""
    return _notes([member for member in members if condition(member) not in TROUBLE], now)


def _notes(members: Sequence[Document], now: float) -> Iterator[Text]:
    found: dict[str, dict[str, list[str]]] = {name: {} for name in CONDITIONS}
    for member in by_trouble(members):
        if text := member_note(member, now):
            found.setdefault(condition(member), {}).setdefault(text, []).append(printable(member["name"]))
    for name, by_text in found.items():
        notes = list(by_text.items())
        for text, names in notes[:MOST_NOTES]:
            yield _line(f"{_some(names)}: {text}", name)
        rest = [member for _, names in notes[MOST_NOTES:] for member in names]
        if rest:
            yield _line(f"{len(rest)} more ({name}): {', '.join(rest)}", name)


def _line(text: str, condition: str) -> Text:
    return Text(text, style_of(condition), no_wrap=True, overflow="ellipsis")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown


def member_note(member: Document, now: float) -> str:
    """Return the reason for a member's condition, and its overrides; empty for a member in normal operation.

    ``now`` is in Unix seconds.
    """
    found, reason = condition(member), printable(member.get("reason") or "")
    orders = [override_text(override, now) for override in member.get("overrides", ())]
    if found == FULL:
        orders.insert(0, why_full(member))
    elif found in GUARDED:
        orders.insert(0, printable(member["guard"]))
    elif reason and (found in TROUBLE or not orders):
        orders.insert(0, reason)
    return "; ".join(orders)
