"""Which options of ``lbdns-load`` can't stand together, and which not alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import click

from lbdns_tools.load.study import LOADS, TARGETS
from lbdns_tools.load.sweep import MAX_RATE

STDOUT: Final = Path("-")  # as a file's name

#: option -> what it can't do without: one of these
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "files": ("base",), "base": ("files",), "ramp": ("seconds",), "trace": ("seconds",), "trace_column": ("trace",),
    "min_rate": ("max_rate",), "max_rate": ("trace",), "spacing": ("rate", "ramp", "trace", "search"),
    "search": ("span",), "span": ("search",), "connections": ("search",), "accuracy": ("search",),
    "max_errors": ("search",), "max_latency": ("search",), "min_achieved": ("search",),
}  # fmt: skip
#: option -> what it can't stand beside
EXCLUDES: Final[Mapping[str, tuple[str, ...]]] = {
    "phases": ("seconds", "requests", "warm_up"),
    "think": ("rate", "ramp", "trace", "phases"),
    "search": ("ramp", "trace", "phases", "clients", "fail_if", "repeat"),
}
#: kind of search -> what it can't do without, and what it can't stand beside: it looks for that, or keeps it itself
SEARCH_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {"rate": ("connections",), "connections": ("rate",), "clients": ()}
SEARCH_EXCLUDES: Final[Mapping[str, tuple[str, ...]]] = {
    "rate": ("rate", "requests", "seconds", "think"),
    "connections": ("connections", "requests", "seconds", "think"),
    "clients": ("connections", "rate", "requests", "spacing"),
}


def check(said: Mapping[str, Any]) -> None:
    """Raises click.UsageError."""
    said = {name: value for name, value in said.items() if value and (name, value) != ("repeat", 1)}
    if not any(name in said for name in (*TARGETS, "phases")):
        raise click.UsageError("what is to be asked for? Give a URL, --urls FILE or --files html --base URL")
    for group in (TARGETS, LOADS):
        for one, other in combinations(group, 2):
            _exclude(said, one, other)
    for name, others in EXCLUDES.items():
        for other in others:
            _exclude(said, name, other)
    for name, others in NEEDS.items():
        if name in said and not any(other in said for other in others):
            raise click.UsageError(f"{option_name(name)} needs {' or '.join(map(option_name, others))}")
    if "search" in said:
        _check_search(said, said["search"])
    _check_values(said)


def _check_search(said: Mapping[str, Any], kind: str) -> None:
    for name in SEARCH_NEEDS[kind]:
        if name not in said:
            raise click.UsageError(f"--search {kind} needs {option_name(name)}: a limit means nothing without it")
    for name in SEARCH_EXCLUDES[kind]:
        if name in said:
            raise click.UsageError(f"--search {kind} and {option_name(name)} can't stand together")


def _check_values(said: Mapping[str, Any]) -> None:
    if "warm_up" in said and "requests" in said and not any(name in said for name in ("rate", "ramp", "trace")):
        raise click.UsageError("--warm-up of clients needs an end by --seconds, not by --requests")
    if said.get("min_rate", 0.0) > said.get("max_rate", MAX_RATE):
        raise click.UsageError(f"--min {said['min_rate']:g} is more than --max {said['max_rate']:g}")
    if said.get("csv") == STDOUT and said.get("json") == STDOUT:
        raise click.UsageError("--csv - and --json - can't both go to standard output")


def _exclude(said: Mapping[str, Any], one: str, other: str) -> None:
    if one in said and other in said:
        raise click.UsageError(f"{option_name(one)} and {option_name(other)} can't stand together")


def option_name(parameter: str) -> str:
    """As it is written on the command line."""
    short = {"url": "URL", "min_rate": "--min", "max_rate": "--max", "span": "--range", "sources": "--source"}
    return short.get(parameter, f"--{parameter.replace('_', '-')}")
