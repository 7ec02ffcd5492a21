"""Lay out a frame of ``lbdns top`` for the height and width of the screen. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from lbdns.commands.terminal.member_order import GUARDED, condition, condition_counts, state_text, style_of
from lbdns.commands.terminal.printable import event_line, number, per_second, percent, printable
from lbdns.commands.terminal.sparklines import BLOCKS, sparkline
from lbdns.commands.terminal.top_data import KEPT, Document, Series, TopData, newest
from lbdns.commands.terminal.top_view import HELP, View
from lbdns.text.counts import counted
from lbdns.text.times import format_duration

LEAST_WIDTH: Final = 60
LEAST_HEIGHT: Final = 10
OLD: Final = 5.0  # s without data, after which the frame says so: in a running farm, something changes every second
POOLS: Final = 4  # number of pools that get a line each
WIDE: Final = 110  # screen width in columns from which more metrics fit
NAME: Final = 14  # fewest columns for a member's name
LONGEST_NAME: Final = 32
#: Heading, metric, decimals and columns of the metrics that a wide screen adds.
MORE: Final = (
    ("queue", "run_queue", 0, 5),
    ("req/s", "requests_per_s", 1, 7),
    ("busy", "busy_workers", 0, 5),
    ("ping", "gateway_ping", 1, 6),
)
_KEYS: Final = "q quit  arrows PgUp PgDn scroll  s sort  r reverse  p pool  / filter  ? help"


@dataclass(frozen=True, slots=True)
class Size:
    width: int
    height: int
    steps: str = BLOCKS  # of sparklines, from low to high

    @property
    def is_wide(self) -> bool:
        return self.width >= WIDE


def frame(data: TopData, view: View, size: Size, now: float) -> list[Text]:
    """Return the lines of the screen at time ``now``. ``now`` and ``data.received`` are times on the same clock.

    Raises KeyError, TypeError or ValueError if the status is not valid.
    """
    if size.width < LEAST_WIDTH or size.height < LEAST_HEIGHT:
        lines = [Text(f"screen too small: {LEAST_WIDTH}x{LEAST_HEIGHT} is required, 80x24 recommended")]
    elif view.help:
        lines = [Text("lbdns top", "bold"), Text(), *(Text(f"  {key:<12}{what}") for key, what in HELP)]
    else:
        lines = _lines(data, view, size, now)
    lines = lines[: size.height]
    for line in lines:
        line.no_wrap, line.overflow = True, "crop"
        line.truncate(size.width, overflow="ellipsis" if size.steps == BLOCKS else "crop")
    return lines


def _lines(data: TopData, view: View, size: Size, now: float) -> list[Text]:
    columns = _columns(data, view, size)
    spark = _spark_width(size, columns)
    head = [_server(data, now), *_pools(data, view), Text(), _heading(columns, spark)]
    events = min(len(data.events), max(3, size.height // 6))
    view.rows = max(1, size.height - len(head) - events - 2)
    members = view.members(data)
    view.offset = max(0, min(view.offset, len(members) - view.rows))
    rows = [
        _row(member, series, columns, spark, size, now - data.received)
        for member, series in members[view.offset : view.offset + view.rows]
    ]
    rows += [Text()] * (view.rows - len(rows))
    lines = [event_line(event, is_short=True) for event in list(data.events)[len(data.events) - events :]]
    bottom = Text(f"/{printable(view.filter)}_", "bold") if view.typing else Text(_KEYS, "dim")
    return [*head, *rows, _rule(view, len(members), size), *lines, bottom]


def _server(data: TopData, now: float) -> Text:
    line = Text("lbdns ", "bold")
    if data.status is None:
        return line.append(data.trouble or "waiting for the server", "bold red" if data.trouble else "")
    server, age = data.status["server"], now - data.received
    if data.trouble:
        return line.append(f"{format_duration(age)} old: {printable(data.trouble)}", "bold red")
    line.append(f"{printable(server['version'])}  up {format_duration(float(server['uptime_s']) + age)}  ", "default")
    line.append(f"{per_second(data.queries_per_s)} queries/s  {counted(int(server['workers']), 'worker')}")
    history = server.get("history") or {}
    if history.get("on") and not history.get("ok", True):
        line.append(f"  history: {printable(history.get('error', ''))}", "bold red")
    if age > OLD:
        line.append(f"  no data for {format_duration(age)}", "bold yellow")
    return line


def _pools(data: TopData, view: View) -> Iterator[Text]:
    pools = data.status["pools"] if data.status else []
    selected = view.selected(data)
    at = next((i for i, pool in enumerate(pools) if pool is selected), 0)
    first = max(0, min(at - POOLS // 2, len(pools) - POOLS))
    for pool in pools[first : first + POOLS]:
        mark = "> " if pool is selected and len(pools) > 1 else "  "
        usable = sum(member["state"] == "usable" for member in pool["members"])
        rates = [newest(data.series_of(pool, member).answers) for member in pool["members"]]
        known = [rate for rate in rates if rate is not None]
        line = Text(mark)
        line.append(f"{printable(pool['name'])}", "bold" if pool is selected else "")
        line.append(f" in {printable(pool['zone'] or '.')}: {usable} of {len(pool['members'])} usable, ")
        line.append(f"{per_second(sum(known) if known else None)} answers/s")
        line.append_text(condition_counts(pool["members"]))
        if pool["fail_open"]:
            line.append(f"  FAIL OPEN: {printable(pool.get('fail_open_reason', ''))}", "bold red")
        yield line


def _columns(data: TopData, view: View, size: Size) -> list[tuple[str, int]]:
    """Return the headings and widths of the columns before the sparklines. A negative width means left alignment."""
    pool = view.selected(data)
    longest = max((cell_len(printable(member["name"])) for member in pool["members"]), default=0) if pool else 0
    name = max(NAME, min(longest, LONGEST_NAME if size.is_wide else NAME))
    fixed = [("member", -name), ("state", -7), ("score", 5), ("age", 6), ("share", 5), ("cap", 4), ("ans/s", 6)]
    return [*fixed, ("cpu%", 4), *((heading, width) for heading, _, _, width in MORE if size.is_wide)]


def _spark_width(size: Size, columns: Iterable[tuple[str, int]]) -> int:
    """Return the width of one of the three sparklines, in columns."""
    taken = sum(abs(width) + 1 for _, width in columns)
    return max(0, min(KEPT, (size.width - taken - 2) // 3))


def _cells(values: Iterable[str], widths: Iterable[int]) -> str:
    """Return a line with aligned values. Values that are too long are truncated."""
    cells = []
    for value, width in zip(values, widths, strict=True):
        length = cell_len(value)
        if length >= abs(width):
            cells.append(set_cell_size(value, abs(width)))
        else:
            gap = " " * (abs(width) - length)
            cells.append(value + gap if width < 0 else gap + value)
    return " ".join(cells)


def _heading(columns: Sequence[tuple[str, int]], spark: int) -> Text:
    line = _cells((heading for heading, _ in columns), (width for _, width in columns))
    sparks = _cells(("ans/s", "score", "cpu"), (-spark,) * 3) if spark else ""
    return Text(f"{line} {sparks}", "bold underline")


def _row(
    member: Document, series: Series, columns: Sequence[tuple[str, int]], spark: int, size: Size, since: float
) -> Text:
    """Return the line that describes a member.

    The age of the report is its age in the status plus ``since``, the number of seconds since the status arrived.
    """
    state, age = str(member["state"]), member["age_s"]
    values = [
        number(member["score"]), number(None if age is None else float(age) + since, 1), percent(member["share"]),
        percent(member.get("capacity_share")), per_second(newest(series.answers)), number(newest(series.cpu)),
        *(number(member["metrics"].get(metric), decimals) for _, metric, decimals, _ in MORE if size.is_wide),
    ]  # fmt: skip
    widths = [width for _, width in columns]
    line = Text(_cells((printable(member["name"]),), widths[:1]) + " ")
    shown = state_text(member)
    line.append(_cells((shown.plain,), widths[1:2]) + " ", shown.style)
    line.append(_cells(values, widths[2:]) + " ")
    found = condition(member)
    if found in GUARDED:
        return line.append(printable(member["guard"]), style_of(found))
    note = printable(member.get("reason") or "")
    if note and state != "usable":
        return line.append(note, "dim")  # a silent member has no current values
    if member.get("overrides"):
        return line.append(note, style_of(found))
    sparks = ((series.answers, None), (series.score, None), (series.cpu, 100.0))
    return line.append(" ".join(sparkline(list(values), spark, top, size.steps) for values, top in sparks), "cyan")


def _rule(view: View, members: int, size: Size) -> Text:
    last = min(members, view.offset + view.rows)
    text = f" {view.offset + 1 if members else 0}-{last} of {members}, by {view.sort}{' reversed' * view.reverse} "
    if view.filter and not view.typing:
        text += f"with {printable(view.filter)!r} "
    dash = "─" if size.steps == BLOCKS else "-"
    return Text((dash * 2 + text).ljust(size.width, dash), "dim")
