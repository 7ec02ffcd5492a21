"""Reads a phases file, a TOML file with one ``[[phase]]`` table per phase. Unknown keys are errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from lbdns.config.toml_reader import TomlTable, read_toml
from lbdns_shared.errors import ConfigError
from lbdns_tools.load.access_log import read_access_log
from lbdns_tools.load.load_option_parsers import MAX_CLIENTS, MAX_RATE, parse_ramp
from lbdns_tools.load.load_plan import SPACINGS, ClosedLoop, LoadPhase, OpenLoop, Spacing
from lbdns_tools.load.rate_trace import read_trace
from lbdns_tools.load.request_mix import FILE_SETS, ORDERS, RequestMix, file_set, one_url, read_urls

MAX_SECONDS: Final = 31 * 86_400.0
MAX_REQUESTS: Final = 1_000_000_000
MAX_COLUMNS: Final = 1_000_000
KINDS: Final = ("clients", "rate", "ramp", "trace", "access_log")
TARGETS: Final = ("url", "urls", "files")

#: Placeholder for an invalid load until all findings are reported
_NO_RATE: Final = OpenLoop((1.0,), 1.0)


def read_phases(
    path: Path, mix: RequestMix | None = None, report: Callable[[str], None] = lambda text: None
) -> tuple[LoadPhase, ...]:
    """Read a phases file. Phases without a target use ``mix``. Paths are relative to the phases file's directory.

    ``report`` is called with a note on input that is skipped. Raises ConfigError with all errors in the file.
    """
    root = read_toml(path)
    phases: list[LoadPhase] = []
    for number, table in enumerate(root.tables("phase"), 1):
        label = table.string("name", f"phase {number}")
        begin_s = table.number("begin", 0.0, 0.0, MAX_SECONDS)
        if "access_log" in table.values:
            load, target = _replay(table, path.parent, report)
        else:
            load, target = _load(table, path.parent), _mix(table, path.parent, mix)
        if label in (phase.label for phase in phases):
            table.wrong("name", f"two phases are named {label!r}; rename one of them")
        if target is not None:
            phases.append(LoadPhase(begin_s, load, target, label))
        table.end()
    if not root.values.get("phase"):
        root.wrong("phase", "at least one [[phase]] with clients, a rate, a ramp, a trace or an access log is required")
    root.end()
    root.findings.raise_if_any()
    return tuple(phases)


def _replay(
    table: TomlTable, folder: Path, report: Callable[[str], None]
) -> tuple[ClosedLoop | OpenLoop, RequestMix | None]:
    """Return the load and the target of a phase that replays an access log."""
    _one(table, KINDS)
    for key in TARGETS:
        if key in table.values:
            table.wrong(key, "cannot be combined with access_log; specify 'base'")
            table.get(key, type(table.values[key]), table.values[key], "")  # mark as known
    spacing: Spacing = "poisson" if table.one_of("spacing", "even", SPACINGS) == "poisson" else "even"
    seconds = table.number("seconds", 0.0, 1e-3, MAX_SECONDS) if "seconds" in table.values else 0.0
    requests = table.integer("requests", 0, 1, MAX_REQUESTS) if "requests" in table.values else 0
    order = table.one_of("url_order", ORDERS[0], ORDERS)
    span, base = _span(table), table.required("base")
    try:
        log = read_access_log(folder / table.string("access_log"), report)
        load = log.load(seconds, span, spacing, requests)
    except ConfigError as error:
        table.wrong("access_log", str(error))
        return _NO_RATE, None
    try:
        return load, log.mix(base, order)
    except ValueError as error:
        table.wrong("base", str(error))
        return load, None


def _load(table: TomlTable, folder: Path) -> ClosedLoop | OpenLoop:
    kind = _one(table, KINDS)
    spacing: Spacing = "poisson" if table.one_of("spacing", "even", SPACINGS) == "poisson" else "even"
    seconds = table.number("seconds", 0.0, 1e-3, MAX_SECONDS) if "seconds" in table.values else 0.0
    requests = table.integer("requests", 0, 1, MAX_REQUESTS) if "requests" in table.values else 0
    think_s = table.number("think", 0.0, 0.0, MAX_SECONDS)
    if "think" in table.values and kind not in ("clients", ""):
        table.wrong("think", "'think' (each client's pause in seconds) can only be used with 'clients'")
    if "spacing" in table.values and kind == "clients":
        table.wrong("spacing", "'spacing' cannot be combined with 'clients', because clients wait for responses")
    match kind:
        case "clients":
            clients = table.integer("clients", 1, 1, MAX_CLIENTS)
            return ClosedLoop(clients, seconds or _end(table, requests), requests, think_s)
        case "rate":
            rate = table.number("rate", 1.0, 1e-6, MAX_RATE)
            _end(table, requests)
            return OpenLoop((rate,), seconds or requests / rate, spacing, requests=requests)
        case "ramp":
            rates = _ramp(table)
            return OpenLoop(rates, _seconds(table, seconds) / (len(rates) - 1), spacing, ramp=True, requests=requests)
        case "trace":
            rates = _trace(table, folder)
            return OpenLoop(rates, _seconds(table, seconds) / len(rates), spacing, requests=requests)
    return _NO_RATE


def _one(table: TomlTable, keys: tuple[str, ...]) -> str:
    """Return the first of ``keys`` that the table contains. Record an error unless the table contains exactly one of
    these keys.
    """
    found = [key for key in keys if key in table.values]
    if not found:
        table.wrong("", f"one of {', '.join(keys)} is required")
    for key in found[1:]:
        table.wrong(key, f"cannot be combined with {found[0]}")
    for key in found:
        table.get(key, type(table.values[key]), table.values[key], "")  # mark as known; only the first is used
    return found[0] if found else ""


def _end(table: TomlTable, requests: int) -> float:
    if not requests and "seconds" not in table.values and "requests" not in table.values:
        table.wrong("", "a limit is required; specify 'seconds' or 'requests'")
    return 0.0 if requests else 1.0


def _seconds(table: TomlTable, seconds: float) -> float:
    if "seconds" not in table.values:
        table.wrong("", "the total duration is required; specify 'seconds'")
    return seconds or 1.0


def _ramp(table: TomlTable) -> tuple[float, ...]:
    return table.parsed("ramp", "", parse_ramp, (1.0, 1.0))


def _trace(table: TomlTable, folder: Path) -> tuple[float, ...]:
    number = type(table.values.get("column")) is int
    column = str(table.integer("column", 1, 1, MAX_COLUMNS)) if number else table.string("column")
    span = _span(table)
    try:
        return read_trace(folder / table.string("trace"), column, span)
    except ConfigError as error:
        table.wrong("trace", str(error))
        return (1.0,)


def _span(table: TomlTable) -> tuple[float, float] | None:
    """Return the range to which rates are scaled, or None if they are not scaled."""
    least = table.number("min", 0.0, 0.0, MAX_RATE)
    most = table.number("max", MAX_RATE, 1e-6, MAX_RATE)
    scaled = [key for key in ("min", "max") if key in table.values]
    if len(scaled) == 1:
        table.wrong(scaled[0], "'min' and 'max' (the lowest and highest rate in requests/s) must be used together")
    elif most < least:
        table.wrong("max", f"'max' must not be less than 'min': {most:g} is less than {least:g}")
    return (least, most) if scaled else None


def _mix(table: TomlTable, folder: Path, mix: RequestMix | None) -> RequestMix | None:
    if not any(key in table.values for key in TARGETS):
        if mix is None:
            table.wrong("", "a target is required; specify 'url', 'urls' or 'files', or a target on the command line")
        return mix
    kind = _one(table, TARGETS)
    try:
        if kind == "url":
            return one_url(table.string("url"))
        if kind == "urls":
            return read_urls(folder / table.string("urls"))
        return file_set(table.one_of("files", "html", FILE_SETS), table.required("base"))
    except (ValueError, ConfigError) as error:
        table.wrong("base" if kind == "files" else kind, str(error))
        return None
