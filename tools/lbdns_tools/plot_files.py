"""Plotting helpers for all tools: matplotlib (optional), file types, colours, axes and saving."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lbdns_shared.errors import ConfigError, LbdnsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The palette of Okabe and Ito, distinct for any colour vision, without yellow, which is hard to see on white
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
ENDINGS: Final = (".png", ".svg", ".pdf")
NARROWEST: Final = 10.0  # a logarithmic axis spans at least one decade


def check_file(path: Path) -> None:
    """Raise LbdnsError if a plot cannot be written to ``path``. Call this before a measurement starts."""
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"--plot: {path}: the file name must end in one of {', '.join(ENDINGS)}")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise ConfigError(f"--plot: {path}: the directory {folder} does not exist")
    need_matplotlib()


def need_matplotlib() -> None:
    """Configure matplotlib to write plots to files. Raises LbdnsError if matplotlib is not installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise LbdnsError(
            "--plot requires matplotlib; in a checkout, run `make deps-lab`; elsewhere, pip install 'lbdns-tools[lab]'"
        ) from None
    matplotlib.use("Agg")  # needs no display
    # Text in an SVG stays text, and the same data give the same file
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lbdns", "font.size": 10})


def new(rows: int, columns: int, width: float, height: float, **more: Any) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure of the given size in inches, and its panels as a list of rows.

    The function does not use pyplot, because pyplot keeps figures in memory.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **more).tolist()


def tidy(axes: Axes) -> None:
    """Draw a light grid, and hide the frame at the top and on the right."""
    hide_frame(axes)
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def legend_below(figure: Figure, axes: Axes, columns: int = 6) -> None:
    """Add one legend for the lines in ``axes`` below all panels, with at most ``columns`` entries in a row."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)), frameon=False)


def legend_beside(figure: Figure, axes: Axes, *, is_reversed: bool = False) -> None:
    """Add one legend for the lines in ``axes`` to the right of all panels, in reverse order if they are stacked."""
    handles, labels = axes.get_legend_handles_labels()
    step = -1 if is_reversed else 1
    figure.legend(handles[::step], labels[::step], loc="outside right upper", frameon=False)


def hide_frame(axes: Axes) -> None:
    """Hide the frame at the top and on the right."""
    axes.spines[["top", "right"]].set_visible(False)


def log_times(axes: Axes) -> None:
    """Make the y axis logarithmic, with plain numbers and a range wide enough not to exaggerate noise."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high < NARROWEST * low:
        widen = (NARROWEST * low / high) ** 0.5
        axes.set_ylim(low / widen, high * widen)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def style(number: int) -> dict[str, Any]:
    """Return matplotlib arguments that give line ``number`` a distinct colour and marker."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 5,
        "linewidth": 1.8,
    }


def save(figure: Figure, path: Path) -> None:
    """Write the figure to a file. Raises LbdnsError if the file cannot be written."""
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})
    try:
        figure.savefig(path, dpi=150, metadata=metadata)
    except OSError as error:
        raise LbdnsError(f"--plot: {path}: cannot write the file: {error.strerror}") from None
