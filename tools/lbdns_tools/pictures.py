"""What the tools' pictures have in common: matplotlib if it is there, a file's kind, colours, axes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lbdns.errors import ConfigError, LbdnsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, told apart with any colour vision; yellow is left out, as it is lost on white
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
ENDINGS: Final = (".png", ".svg", ".pdf")
NARROWEST: Final = 10.0  # a logarithmic axis reaches over one decade at least


def check_file(path: Path) -> None:
    """Raises LbdnsError before anything is measured if the picture couldn't be drawn."""
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"--plot: {path}: the name has to end with one of {', '.join(ENDINGS)}")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise ConfigError(f"--plot: {path}: there is no folder {folder}")
    need_matplotlib()


def need_matplotlib() -> None:
    """Sets matplotlib up for files. Raises LbdnsError if it isn't installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise LbdnsError("--plot: pictures need matplotlib: pip install 'lbdns[lab]'") from None
    matplotlib.use("Agg")  # there may be no screen
    # Names stay text in an SVG, and the same figures give the same file
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lbdns", "font.size": 10})


def new(rows: int, columns: int, width: float, height: float, **more: Any) -> tuple[Figure, list[list[Axes]]]:
    """A figure of so many inches and its panels, line by line. Not by pyplot, which would keep every figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **more).tolist()


def tidy(axes: Axes) -> None:
    """Light lines behind, nothing above and to the right."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def log_times(axes: Axes) -> None:
    """A logarithmic y axis with plain numbers, and wide enough that noise doesn't look like a mountain."""
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
    """The colour and mark of the line with this number."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 5,
        "linewidth": 1.8,
    }


def save(figure: Figure, path: Path) -> None:
    """Raises LbdnsError if the file can't be written."""
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})
    try:
        figure.savefig(path, dpi=150, metadata=metadata)
    except OSError as error:
        raise LbdnsError(f"--plot: {path}: can't be written: {error.strerror}") from None
