"""Draws the charts of a report with matplotlib: line charts, comparisons with 1999, time series, and bar charts.

All charts are SVG files that follow the page's light or dark mode. Missing results (None) appear as gaps, never as 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools import plot_files
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report.outcome_index import by_selection
from lbdns_tools.lab.report.report_page import ReportPicture
from lbdns_tools.lab.report.run_windows import cpu, windows
from lbdns_tools.plot_files import COLOURS, log_times, need_matplotlib, new, save, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Line = list[tuple[float, float | None]]  # None (no result) is not drawn
Points = Sequence[tuple[float, float | None]]  # points with the same x are repetitions
Series = Mapping[str, Points]  # by label

WIDTH: Final = 7.2  # inches: the width of the page's text
WIDE: Final = 8.3  # inches: the full width of the page
HEIGHT: Final = 3.8
#: A selection has the same colour and marker in every chart of every report
ORDER: Final = ("best", "round_robin", "best_score", "single", "haproxy", "nginx", "pound")
#: The share of a group's width that its bars fill; the rest separates the groups
BAR_SHARE: Final = 0.8
INK: Final = "#4d4d4d"  # replaces black
MARK: Final = "#767676"  # grey, readable on white and on black
_NOTHING: Final = float("nan")
#: The page's font, and the dark page's replacements for background, lines and text; blues are lighter for contrast
_STYLE: Final = """
text {font-family: system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif !important}
@media (prefers-color-scheme: dark) {
 [style*="fill: #ffffff"] {fill: #15191e !important}
 text {fill: #d8dde3 !important}
 [style*="stroke: #000000"] {stroke: #aab3bd !important}
 [style*="fill: #000000"] {fill: #aab3bd !important}
 [style*="stroke: #4d4d4d"] {stroke: #c3cad2 !important}
 [style*="fill: #4d4d4d"] {fill: #c3cad2 !important}
 [style*="stroke: #dddddd"] {stroke: #343b44 !important}
 [style*="stroke: #ffffff"] {stroke: #15191e !important}
 [style*="stroke: #0072b2"] {stroke: #3391da !important}
 [style*="fill: #0072b2"] {fill: #3391da !important}
 [style*="stroke: #56b4e9"] {stroke: #a5dcff !important}
 [style*="fill: #56b4e9"] {fill: #a5dcff !important}
}
"""


def lines(path: Path, series: Series, x: str, y: str, *, log: bool = False) -> None:
    """Draw a line chart with one line per label in ``series``."""
    need_matplotlib()
    figure, ((axes,),) = new(1, 1, WIDTH, HEIGHT)
    _lines(axes, series, x, y, log=log)
    _legend(figure, [axes])
    _finish(figure, path)


def chart(
    name: str, caption: str, series: Mapping[str, Line], x: str, y: str, *, log: bool = False
) -> list[ReportPicture]:
    """Return a list with a line chart of ``series``, or an empty list if ``series`` is empty."""
    return [ReportPicture(name, caption, partial(lines, series=series, x=x, y=y, log=log))] if series else []


def course(
    name: str,
    caption: str,
    outcomes: Sequence[MeasuredOutcome],
    groups: Sequence[str],
    *,
    window_s: int = 1,
    marks: Mapping[str, float] | None = None,
) -> list[ReportPicture]:
    """Return a chart of each selection's first run over time: rates, failures, response times and CPU use."""
    panels: dict[str, dict[str, Line]] = {}
    for label, (outcome, *_) in by_selection(outcomes).items():
        parts = windows(outcome.row, window_s)
        shown: dict[str, Line] = {
            "successful /s": [(part.middle_s, part.ok) for part in parts],
            "failed /s": [(part.middle_s, part.failed) for part in parts],
            "response, ms": [(p.middle_s, None if p.response_s is None else 1000 * p.response_s) for p in parts],
            "CPU, % of a core": [*cpu(outcome, groups)],
        }
        for panel, line in shown.items():
            panels.setdefault(panel, {})[label] = line
    return [ReportPicture(name, caption, partial(over_time, panels=panels, marks=marks))] if outcomes else []


def beside_1999(path: Path, now: Series, then: Series, x: str, y: str, *, log: bool = False) -> None:
    """Draw the new results next to those of 1999.

    The axes are separate, because only the shapes of the curves are comparable.
    """
    need_matplotlib()
    figure, ((left, right),) = new(1, 2, WIDE, HEIGHT)
    labels = _ordered([*now, *then])
    for axes, series, title in ((left, now, "measured here"), (right, then, "1999")):
        _lines(axes, series, x, y, labels=labels, log=log)
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    _legend(figure, [left, right])
    _finish(figure, path)


def over_time(path: Path, panels: Mapping[str, Series], *, marks: Mapping[str, float] | None = None) -> None:
    """Draw stacked panels. Each key in ``panels`` is a y-axis label. ``marks`` maps each event to its time in seconds
    after the start."""
    need_matplotlib()
    figure, rows = new(len(panels), 1, WIDTH, 0.9 + 2.1 * len(panels), sharex=True)
    for (axes,), (y, series) in zip(rows, panels.items(), strict=True):
        _lines(axes, series, "", y, marked=False)
        if len(series) > 1:
            axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        for second in (marks or {}).values():
            axes.axvline(second, color=MARK, linewidth=1.0, linestyle="--")
    for what, second in (marks or {}).items():
        top = rows[0][0]
        top.annotate(what, (second, 1.0), xycoords=("data", "axes fraction"), xytext=(3, -3),
                     textcoords="offset points", va="top", fontsize=8)  # fmt: skip
    rows[-1][0].set_xlabel("time, s")
    _finish(figure, path)


def bars(path: Path, groups: Mapping[str, Mapping[str, float | None]], y: str, *, log: bool = False) -> None:
    """Draw a bar chart with one bar per label in each group, and show each value above the bar. With ``log``, the axis
    is logarithmic."""
    need_matplotlib()
    figure, ((axes,),) = new(1, 1, WIDTH, HEIGHT)
    tidy(axes)
    axes.grid(False, axis="x")
    labels = _ordered([label for group in groups.values() for label in group])
    width = BAR_SHARE / max(1, len(labels))
    for place, label in enumerate(labels):
        shift = (place - (len(labels) - 1) / 2) * width
        values = [group.get(label) for group in groups.values()]
        heights = [_NOTHING if value is None else value for value in values]
        colour = _style(label, labels)["color"]
        drawn = axes.bar([n + shift for n in range(len(groups))], heights, 0.92 * width, label=label, color=colour)
        for n, value in enumerate(values):
            if value is None:
                axes.text(n + shift, 0.01, "no result", transform=axes.get_xaxis_transform(), rotation=90,
                          ha="center", va="bottom", fontsize=7, color=MARK)  # fmt: skip
        # With more bars, the numbers would overlap
        if len(labels) * len(groups) <= 16:
            axes.bar_label(drawn, ["" if value is None else _number(value) for value in values], fontsize=7, padding=1)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_ylabel(y)
    known = [value for group in groups.values() for value in group.values() if value]
    if log and known:
        log_times(axes)
        axes.set_ylim(bottom=min(known) / 4)  # a bar of the lowest value can be seen
    _legend(figure, [axes])
    _finish(figure, path)


def _number(value: float) -> str:
    """Return ``value`` with three significant digits, or as an integer if it has more."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _lines(
    axes: Axes, series: Series, x: str, y: str, *, labels: Sequence[str] = (), log: bool = False, marked: bool = True
) -> None:
    tidy(axes)
    labels = labels or _ordered(list(series))
    for label in labels:
        if label not in series:
            continue
        how = _style(label, labels)
        if not marked:
            how |= {"marker": "", "linewidth": 1.4}
        places, means, spread = _means(series[label])
        axes.plot(places, means, label=label, **how)
        if spread:
            axes.errorbar(places, means, yerr=list(zip(*spread, strict=True)), fmt="none", ecolor=how["color"],
                          elinewidth=1.0, capsize=2.5)  # fmt: skip
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if all(value is None for points in series.values() for _, value in points):
        axes.set_yticks([])
        if x:  # otherwise the panels below share this axis
            axes.set_xticks([])
        axes.text(0.5, 0.5, "no result", transform=axes.transAxes, ha="center", va="center", color=MARK)
    elif log:
        log_times(axes)
    else:
        axes.set_ylim(bottom=0)
        if axes.dataLim.ymax > 0:  # matplotlib's own margin is a share of the data's range, which may not start at 0
            axes.set_ylim(top=1.05 * axes.dataLim.ymax)


def _means(points: Points) -> tuple[list[float], list[float], list[tuple[float, float]]]:
    """Return three lists: the x values, the mean y at each x, and the error bars. An error bar gives the distances from
    the mean to the lowest and highest y. If no x repeats, the third list is empty."""
    at: dict[float, list[float]] = defaultdict(list)
    for place, value in points:
        at[place] += [] if value is None else [value]
    places = sorted(at)
    means = [fmean(at[place]) if at[place] else _NOTHING for place in places]
    if all(len(values) < 2 for values in at.values()):
        return places, means, []
    return places, means, [
        (mean - min(at[place]), max(at[place]) - mean) if at[place] else (0.0, 0.0)
        for place, mean in zip(places, means, strict=True)
    ]  # fmt: skip


def _ordered(labels: Sequence[str]) -> list[str]:
    return [label for label in ORDER if label in labels] + [x for x in dict.fromkeys(labels) if x not in ORDER]


def _style(label: str, labels: Sequence[str]) -> dict[str, Any]:
    """Return the style for a label. Labels that are not in ORDER get unused colours."""
    if label in ORDER:
        number = ORDER.index(label)
    else:
        taken = {ORDER.index(known) for known in labels if known in ORDER}
        free = [number for number in range(len(COLOURS)) if number not in taken] or list(range(len(COLOURS)))
        number = free[[other for other in labels if other not in ORDER].index(label) % len(free)]
    how = plot_files.style(number)
    # Grey instead of black: SVG omits black, its default, so a dark page could not replace it
    return how | {"color": INK} if how["color"] == "#000000" else how


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    handles: dict[str, Any] = {}
    for axes in panels:
        found, names = axes.get_legend_handles_labels()
        handles = dict(zip(names, found, strict=True)) | handles
    if len(handles) > 1:
        labels = _ordered(list(handles))
        figure.legend([handles[label] for label in labels], labels, loc="outside upper left",
                      ncols=min(6, len(labels)), frameon=False, fontsize=9)  # fmt: skip


def _finish(figure: Figure, path: Path) -> None:
    save(figure, path)
    try:
        text = path.read_text("utf-8")
        path.write_text(text.replace("</style>", f"{_STYLE}</style>", 1), "utf-8")
    except OSError as error:
        raise LbdnsError(f"{path}: cannot write the file: {error.strerror}") from None
