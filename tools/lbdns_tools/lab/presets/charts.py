"""Pictures of the studies: series over one axis, and what went on in the course of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.presets.over_time import cpu, windows
from lbdns_tools.lab.report import pictures
from lbdns_tools.lab.report.section import Picture

Series = list[tuple[float, float | None]]  # None is no result, and is not drawn


def chart(
    name: str, caption: str, series: Mapping[str, Series], x: str, y: str, *, log: bool = False, log_x: bool = False
) -> list[Picture]:
    """A line for each of the series; no picture of nothing."""
    draw = partial(pictures.lines, series=series, x=x, y=y, log=log, log_x=log_x)
    return [Picture(name, caption, draw)] if series else []


def course(
    name: str,
    caption: str,
    outcomes: Sequence[Outcome],
    groups: Sequence[str],
    *,
    window_s: int = 1,
    marks: Mapping[str, float] | None = None,
) -> list[Picture]:
    """One run of each selection over its time: rates, failures, response, CPU of ``groups`` together."""
    panels: dict[str, dict[str, Series]] = {}
    for outcome in {outcome.case.selection: outcome for outcome in reversed(outcomes)}.values():
        label, parts = outcome.case.selection, windows(outcome.row, window_s)
        lines: dict[str, Series] = {
            "answered well /s": [(part.middle_s, part.ok) for part in parts],
            "failed /s": [(part.middle_s, part.failed) for part in parts],
            "response, ms": [(p.middle_s, None if p.response_s is None else 1000 * p.response_s) for p in parts],
            "CPU, % of a core": [*cpu(outcome, groups)],
        }
        for panel, line in lines.items():
            panels.setdefault(panel, {})[label] = line
    return [Picture(name, caption, partial(pictures.over_time, panels=panels, marks=marks))] if outcomes else []
