"""Overlapping loads from a TOML file: ``[[phase]]`` tables, as strict as lbdns.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lbdns.errors import ConfigError
from lbdns.toml_table import Place, Table, read_toml
from lbdns_tools.load.mix import FILE_SETS, Mix, file_set, one_url, read_urls
from lbdns_tools.load.plan import SPACINGS, Closed, Open, Phase, Spacing
from lbdns_tools.load.sweep import MAX_CLIENTS, MAX_RATE, parse_ramp
from lbdns_tools.load.trace import read_trace

MAX_SECONDS: Final = 31 * 86_400.0
MAX_REQUESTS: Final = 1_000_000_000
MAX_COLUMNS: Final = 1_000_000
KINDS: Final = ("clients", "rate", "ramp", "trace")
TARGETS: Final = ("url", "urls", "files")

#: Stands in for what is wrong until all findings are told
_NO_RATE: Final = Open((1.0,), 1.0)


def read_phases(path: Path, mix: Mix | None = None) -> tuple[Phase, ...]:
    """The phases of a file; ``mix`` is for those that name no target of their own. Paths are relative to the file.

    Raises ConfigError with every error found in the file.
    """
    values, findings = read_toml(path)
    root = Table(values, Place(), findings)
    phases: list[Phase] = []
    for number, table in enumerate(root.tables("phase"), 1):
        label = table.string("name", f"phase {number}")
        begin_s = table.number("begin", 0.0, 0.0, MAX_SECONDS)
        load, target = _load(table, path.parent), _mix(table, path.parent, mix)
        if label in (phase.label for phase in phases):
            table.wrong("name", f"two phases are called {label!r}; give one another name")
        if target is not None:
            phases.append(Phase(begin_s, load, target, label))
        table.end()
    if not root.values.get("phase"):
        root.wrong("phase", "there is no [[phase]]: begin, and a rate, a ramp, a trace or clients, and how long")
    root.end()
    findings.raise_if_any()
    return tuple(phases)


def _load(table: Table, folder: Path) -> Closed | Open:
    kind = _one(table, KINDS)
    spacing: Spacing = SPACINGS[0] if table.one_of("spacing", SPACINGS[0], SPACINGS) == SPACINGS[0] else SPACINGS[1]
    seconds = table.number("seconds", 0.0, 1e-3, MAX_SECONDS) if "seconds" in table.values else 0.0
    requests = table.integer("requests", 0, 1, MAX_REQUESTS) if "requests" in table.values else 0
    think_s = table.number("think", 0.0, 0.0, MAX_SECONDS)
    if "think" in table.values and kind not in ("clients", ""):
        table.wrong("think", "only clients think: they wait for a response, and then for so many seconds")
    if "spacing" in table.values and kind == "clients":
        table.wrong("spacing", "clients have none: each asks when it has its response")
    match kind:
        case "clients":
            clients = table.integer("clients", 1, 1, MAX_CLIENTS)
            return Closed(clients, seconds or _end(table, requests), requests, think_s)
        case "rate":
            rate = table.number("rate", 1.0, 1e-6, MAX_RATE)
            _end(table, requests)
            return Open((rate,), seconds or requests / rate, spacing, requests=requests)
        case "ramp":
            rates = _ramp(table)
            return Open(rates, _seconds(table, seconds) / (len(rates) - 1), spacing, ramp=True, requests=requests)
        case "trace":
            rates = _trace(table, folder)
            return Open(rates, _seconds(table, seconds) / len(rates), spacing, requests=requests)
    return _NO_RATE


def _one(table: Table, keys: tuple[str, ...]) -> str:
    """Which of ``keys`` the table has: it must be one."""
    found = [key for key in keys if key in table.values]
    if not found:
        table.wrong("", f"says none of {', '.join(keys)}; write one of them")
    for key in found[1:]:
        table.wrong(key, f"can't stand beside {found[0]}; give one of them")
    for key in found:
        table.get(key, type(table.values[key]), table.values[key], "")  # asked for: what is read is the first
    return found[0] if found else ""


def _end(table: Table, requests: int) -> float:
    if not requests and "seconds" not in table.values and "requests" not in table.values:
        table.wrong("", "has no end; write seconds or requests")
    return 0.0 if requests else 1.0


def _seconds(table: Table, seconds: float) -> float:
    if "seconds" not in table.values:
        table.wrong("", "doesn't say how many seconds it takes in all; write seconds")
    return seconds or 1.0


def _ramp(table: Table) -> tuple[float, ...]:
    try:
        return parse_ramp(table.string("ramp"))
    except ValueError as error:
        table.wrong("ramp", str(error))
        return (1.0, 1.0)


def _trace(table: Table, folder: Path) -> tuple[float, ...]:
    number = type(table.values.get("column")) is int
    column = str(table.integer("column", 1, 1, MAX_COLUMNS)) if number else table.string("column")
    least = table.number("min", 0.0, 0.0, MAX_RATE)
    most = table.number("max", MAX_RATE, 1e-6, MAX_RATE)
    scaled = [key for key in ("min", "max") if key in table.values]
    if len(scaled) == 1:
        table.wrong(scaled[0], "min and max stand together: the lowest and the highest rate, requests/s")
    elif most < least:
        table.wrong("max", f"{most:g} is less than min, {least:g}")
    try:
        return read_trace(folder / table.string("trace"), column, (least, most) if scaled else None)
    except ConfigError as error:
        table.wrong("trace", str(error))
        return (1.0,)


def _mix(table: Table, folder: Path, mix: Mix | None) -> Mix | None:
    if not any(key in table.values for key in TARGETS):
        if mix is None:
            table.wrong("", "has no target; write url, urls or files, or name one on the command line")
        return mix
    kind = _one(table, TARGETS)
    try:
        match kind:
            case "url":
                return one_url(table.string("url"))
            case "urls":
                return read_urls(folder / table.string("urls"))
            case _:
                return file_set(table.one_of("files", "html", FILE_SETS), table.required("base"))
    except (ValueError, ConfigError) as error:
        table.wrong("base" if kind == "files" else kind, str(error))
        return None
