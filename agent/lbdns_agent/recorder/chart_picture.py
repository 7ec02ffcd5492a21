"""Draws charts into one picture (PNG, SVG or PDF) with matplotlib, which is optional."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lbdns_agent.recorder.recorded_charts import Chart
from lbdns_shared.errors import ConfigError, LbdnsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDINGS: Final = (".png", ".svg", ".pdf")
COLUMNS: Final = 2
WIDTH, HEIGHT = 6.0, 2.4  # inches of each chart
#: From the palette of Okabe and Ito, distinct for any colour vision
COLOURS: Final = {"read": "#0072B2", "write": "#D55E00", "discard": "#009E73", "flush": "#CC79A7"}
OTHER_COLOUR: Final = "#0072B2"
RESOLUTION: Final = 150  # dots per inch
MARGIN: Final = 0.04  # share of the largest value: keeps lines off the frame


def check_picture(path: Path) -> None:
    """Raise ConfigError if ``path`` has an unknown file extension, or LbdnsError if matplotlib is not installed."""
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"--out: {path}: the file name must end in one of {', '.join(ENDINGS)}")
    try:
        import matplotlib
    except ImportError:
        raise LbdnsError("plotting requires matplotlib; to install it, run pip install 'lbdns-agent[plot]'") from None
    matplotlib.use("Agg")  # needs no display
    # Text in an SVG stays text, and the same data give the same file
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lbdns", "font.size": 9})


def draw(charts: Sequence[Chart], zone: tzinfo | None, path: Path) -> None:
    """Draw the charts in two columns, with times in ``zone`` (None: this host's). Call ``check_picture`` before.

    Raises LbdnsError if the picture can't be written.
    """
    from matplotlib.figure import Figure

    columns = min(COLUMNS, len(charts))
    rows = -(-len(charts) // columns)
    figure = Figure(figsize=(WIDTH * columns, HEIGHT * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel().tolist()
    shown = zone or datetime.now().astimezone().tzinfo
    for chart, place in zip(charts, axes):
        _draw_chart(chart, place, shown)
    for place in axes[len(charts) :]:
        place.set_visible(False)
    for place in axes[max(0, len(charts) - columns) : len(charts)]:
        place.tick_params(labelbottom=True)
        place.set_xlabel(f"time ({zone.tzname(None) if zone else 'local time'})")
    # Without the date, the same data give the same file
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
    try:
        figure.savefig(path, dpi=RESOLUTION, metadata=metadata)
    except OSError as error:
        raise LbdnsError(f"{path}: cannot write the file: {error.strerror}") from None


def _draw_chart(chart: Chart, axes: Axes, zone: tzinfo | None) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import FuncFormatter

    for line in chart.lines:
        times = [datetime.fromtimestamp(time, zone) for time in line.times]
        axes.plot(times, line.values, label=line.label, color=COLOURS.get(line.label, OTHER_COLOUR), linewidth=1.2)  # type: ignore[arg-type]
    axes.set_title(chart.title, loc="left", fontsize=9, fontweight="bold")
    axes.set_ylabel(chart.unit)
    top = max((value for line in chart.lines for value in line.values if not math.isnan(value)), default=0.0) or 1.0
    axes.set_ylim(-MARGIN * top, top * (1.0 + MARGIN))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:,.10g}"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    locator = AutoDateLocator(tz=zone)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))  # type: ignore[no-untyped-call]
    if len(chart.lines) > 1:
        axes.legend(
            frameon=False,
            fontsize=8,
            loc="lower right",
            bbox_to_anchor=(1.0, 0.98),
            ncols=len(chart.lines),
            borderpad=0.0,
        )
