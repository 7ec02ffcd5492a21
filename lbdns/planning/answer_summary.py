"""States in one sentence why the next answer names a member.

The sentence usually contains the number that decided. The live page shows this sentence to viewers who don't know
lbdns. In an explanation, ``why`` contains the reason that the policy itself states. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.policies.best_score import highest
from lbdns.policies.highest_scores import fastest, nearly_highest
from lbdns.policies.plan import Part, PoolView

SAME_SHARE: Final = 0.1  # relative difference below which two shares count as equal, since loads change constantly


@dataclass(frozen=True, slots=True)
class NextSelection:
    """The next selection from a plan. Members are given by index into ``names``, their names relative to the zone.

    ``capacity_share`` is the member's part of the candidates' total capacity, from 0 to 1. ``share`` is the member's
    part of the planned answers, or None if the plan has no shares. ``is_starting`` is true during slow start.
    ``previous`` is the member selected before, if any. ``view`` returns a view of the pool, which takes milliseconds in
    large pools.
    """

    member: int
    previous: int | None
    candidates: int
    share: float | None
    capacity_share: float
    is_starting: bool
    names: Sequence[str]
    view: Callable[[], PoolView]


def summarize(policy: str, part: Part, selection: NextSelection) -> str:
    """Return one sentence with the reason for ``selection``, or an empty string if the policy has no such sentence.
    ``part`` is the part of the plan that contains the selection.
    """
    if policy == "best" and part == "overflow":
        reason = "queries arrive faster than reports can show, so answers follow capacity"
        return f"{reason}: {_name(selection)} has {_capacity(selection)}"
    if policy == "best" and part == "light":
        return _light(selection)
    describe = _BY_POLICY.get(policy)
    return describe(selection) if describe else ""


def _name(selection: NextSelection) -> str:
    return selection.names[selection.member]


def _capacity(selection: NextSelection) -> str:
    usable = "usable " if selection.candidates < len(selection.names) else ""
    return f"{percent(selection.capacity_share)} of the {usable}capacity"


def _light(selection: NextSelection) -> str:
    view = selection.view()
    near = nearly_highest(view)
    quick = fastest(view, near)
    if selection.member not in quick:  # scores have changed since the plan was made
        return ""
    if len(near) == 1:
        return f"few queries, and {_highest_score(view, selection)}"
    scores = _range([view.members[i].score for i in near])
    group = f"the {len(near)} members with the highest scores ({scores})"
    if len(quick) == len(near):
        return f"few queries, so {group} take turns"
    if len(quick) == 1:
        return f"few queries, and {_name(selection)} has the fastest processors of {group}"
    return f"few queries, so the {len(quick)} fastest of {group} take turns"


def _best_score(selection: NextSelection) -> str:
    view = selection.view()
    tied = highest(view)
    if selection.member not in tied:
        return ""
    if len(tied) == 1:
        return _highest_score(view, selection)
    return f"{len(tied)} members have the highest score ({view.members[tied[0]].score}) and take turns"


def _highest_score(view: PoolView, selection: NextSelection) -> str:
    """Return a clause that compares the selected member's score, which is the highest, with the second highest
    score."""
    first, names = selection.member, selection.names
    others = [i for i in view.candidates if i != first]
    second = max(others, key=lambda i: view.members[i].score, default=None)
    follows = "" if second is None else f", ahead of {names[second]} with {view.members[second].score}"
    return f"{names[first]} has the highest score ({view.members[first].score}){follows}"


def _level_filling(selection: NextSelection) -> str:
    if selection.share is None or selection.capacity_share <= 0:
        return ""
    name, ratio = _name(selection), selection.share / selection.capacity_share
    gets = f"gets {percent(selection.share)} of the answers (it has {_capacity(selection)})"
    if selection.is_starting:
        return f"next in turn: {name} is in slow start, and {gets}"
    if ratio > 1 + SAME_SHARE:
        return f"requests wait less at {name} than elsewhere, so it {gets}"
    if ratio < 1 - SAME_SHARE:
        return f"next in turn: requests wait longer at {name} than elsewhere, so it {gets}"
    return f"next in turn: requests wait about as long everywhere, so {name} {gets}"


def _weighted(selection: NextSelection) -> str:
    if selection.share is None:
        return ""
    gets = f"gets {percent(selection.share)} of the answers"
    return f"next in turn: {_name(selection)} has {_capacity(selection)}, and {gets}"


def _round_robin(selection: NextSelection) -> str:
    if selection.previous in (None, selection.member):
        return f"all {selection.candidates} members take turns, whatever their load"
    return f"next in turn after {selection.names[selection.previous]}; the members' load is ignored"


_BY_POLICY: Final[Mapping[str, Callable[[NextSelection], str]]] = {
    "best": _level_filling,
    "best_score": _best_score,
    "round_robin": _round_robin,
    "weighted": _weighted,
}


def percent(share: float) -> str:
    """Return a share as a percentage, with one decimal place below 10 %."""
    value = 100 * share
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.1f} %"


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{high}" if low == high else f"{low} to {high}"
