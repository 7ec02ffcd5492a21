"""Pictures of a report: lines over clients or a rate, beside 1999, over the time of a run, bars. Needs matplotlib.

All are SVG and change with the page between light and dark. No result (None) is a gap, and never 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from lbdns.errors import LbdnsError
from lbdns_tools import pictures
from lbdns_tools.pictures import COLOURS, log_times, need_matplotlib, new, save, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = Sequence[tuple[float, float | None]]  # several with the same x are repetitions of one point
Series = Mapping[str, Points]  # by label

WIDTH: Final = 7.2  # inches: a column of text at the size in which text is read
WIDE: Final = 8.3  # inches: all of the page's width
HEIGHT: Final = 3.8
#: The same colour and mark for a way to choose in every picture of every report
ORDER: Final = ("best", "round_robin", "best_score", "single", "haproxy", "nginx", "pound")
#: Bars keep this share of their place, the rest parts one group from the next
BAR_SHARE: Final = 0.8
INK: Final = "#4d4d4d"  # for black
MARK: Final = "#767676"  # grey, readable on white and on black
_NOTHING: Final = float("nan")
#: The page's letters, and what a dark page needs instead of white, lines and ink; the blues are lighter for contrast
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


def lines(path: Path, series: Series, x: str, y: str, *, log: bool = False, log_x: bool = False) -> None:
    """A line for each label. Raises LbdnsError."""
    need_matplotlib()
    figure, ((axes,),) = new(1, 1, WIDTH, HEIGHT)
    _lines(axes, series, x, y, log=log)
    if log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    _legend(figure, axes, len(series))
    _finish(figure, path)


def beside_1999(path: Path, now: Series, then: Series, x: str, y: str, *, log: bool = False) -> None:
    """What was measured and what was measured in 1999, each on axes of its own: machines differ, curves compare.

    Raises LbdnsError.
    """
    need_matplotlib()
    figure, ((left, right),) = new(1, 2, WIDE, HEIGHT)
    labels = _ordered([*now, *then])
    for axes, series, title in ((left, now, "measured here"), (right, then, "1999")):
        _lines(axes, series, x, y, labels=labels, log=log)
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    handles: dict[str, Any] = {}
    for axes in (left, right):
        found, names = axes.get_legend_handles_labels()
        handles |= {name: handle for name, handle in zip(names, found, strict=True) if name not in handles}
    _legend_of(figure, {label: handles[label] for label in labels if label in handles})
    _finish(figure, path)


def over_time(path: Path, panels: Mapping[str, Series], *, marks: Mapping[str, float] | None = None) -> None:
    """Panels one below the other, by what their y axis is, over the same seconds.

    ``marks`` are seconds at which something happened, by what. Raises LbdnsError.
    """
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


def bars(path: Path, groups: Mapping[str, Mapping[str, float | None]], y: str) -> None:
    """A group of bars each, and in it a bar for each label, with its value above. Raises LbdnsError."""
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
        # A bar's number has room where bars aren't too many
        if len(labels) * len(groups) <= 16:
            axes.bar_label(drawn, ["" if value is None else f"{value:.3g}" for value in values], fontsize=7, padding=1)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_ylabel(y)
    if len(labels) > 1:
        _legend(figure, axes, len(labels))
    _finish(figure, path)


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
        if x:  # else the panels below share this axis
            axes.set_xticks([])
        axes.text(0.5, 0.5, "no result", transform=axes.transAxes, ha="center", va="center", color=MARK)
    elif log:
        log_times(axes)
    else:
        axes.set_ylim(bottom=0)
        if axes.dataLim.ymax > 0:  # the room that is left is a part of what is drawn, which need not begin at 0
            axes.set_ylim(top=1.05 * axes.dataLim.ymax)


def _means(points: Points) -> tuple[list[float], list[float], list[tuple[float, float]]]:
    """Places in order, the mean at each, and how far the lowest and the highest are from it if any was repeated."""
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
    """Each once: those that are known in their order, then the others in theirs."""
    return [label for label in ORDER if label in labels] + [x for x in dict.fromkeys(labels) if x not in ORDER]


def _style(label: str, labels: Sequence[str]) -> dict[str, Any]:
    """As everywhere in the house, but for black: SVG leaves it out as the usual, and a dark page can't change it."""
    how = pictures.style(_place(label, labels))
    return how | {"color": INK} if how["color"] == "#000000" else how


def _place(label: str, labels: Sequence[str]) -> int:
    """The number of a label's colour. Others than ORDER's take what those that are here leave."""
    if label in ORDER:
        return ORDER.index(label)
    taken = {ORDER.index(known) for known in labels if known in ORDER}
    free = [number for number in range(len(COLOURS)) if number not in taken] or list(range(len(COLOURS)))
    others = [other for other in labels if other not in ORDER]
    return free[others.index(label) % len(free)]


def _legend(figure: Figure, axes: Axes, count: int) -> None:
    if count > 1:
        handles, names = axes.get_legend_handles_labels()
        _legend_of(figure, dict(zip(names, handles, strict=True)))


def _legend_of(figure: Figure, handles: Mapping[str, Any]) -> None:
    """Above, where it is read first."""
    figure.legend(list(handles.values()), list(handles), loc="outside upper left", ncols=min(6, len(handles)),
                  frameon=False, fontsize=9)  # fmt: skip


def _finish(figure: Figure, path: Path) -> None:
    """Write it, with what makes it look like a part of the page."""
    save(figure, path)
    try:
        text = path.read_text("utf-8")
        path.write_text(text.replace("</style>", f"{_STYLE}</style>", 1), "utf-8")
    except OSError as error:
        raise LbdnsError(f"{path}: can't be written: {error.strerror}") from None
