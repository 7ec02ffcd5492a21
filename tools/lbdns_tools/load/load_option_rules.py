"""Option rules of ``lbdns-load``: which options exclude and which require each other. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import click

from lbdns_tools.load.load_study import LOADS, TARGETS
from lbdns_tools.load.sweep_parsers import MAX_RATE

STDOUT: Final = Path("-")  # a file name that stands for standard output

#: option -> the options of which it requires one
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "files": ("base",), "base": ("files",), "ramp": ("seconds",), "trace": ("seconds",), "trace_column": ("trace",),
    "min_rate": ("max_rate",), "max_rate": ("trace",), "spacing": ("rate", "ramp", "trace", "search"),
    "search": ("span",), "span": ("search",), "connections": ("search",), "accuracy": ("search",),
    "max_errors": ("search",), "max_latency": ("search",), "min_achieved": ("search",),
}  # fmt: skip
#: option -> the options that it excludes
EXCLUDES: Final[Mapping[str, tuple[str, ...]]] = {
    "phases": ("seconds", "requests", "warm_up"),
    "think": ("rate", "ramp", "trace", "phases"),
    "search": ("ramp", "trace", "phases", "clients", "fail_if", "repeat"),
}
#: Kind of search -> the options that it requires, and those that it excludes because it sets them itself
SEARCH_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {"rate": ("connections",), "connections": ("rate",), "clients": ()}
SEARCH_EXCLUDES: Final[Mapping[str, tuple[str, ...]]] = {
    "rate": ("rate", "requests", "seconds", "think"),
    "connections": ("connections", "requests", "seconds", "think"),
    "clients": ("connections", "rate", "requests", "spacing"),
}


def check_options(said: Mapping[str, Any]) -> None:
    """Raise click.UsageError if the options break a rule. ``said`` maps parameter names to values."""
    said = {name: value for name, value in said.items() if value and (name, value) != ("repeat", 1)}
    if not any(name in said for name in (*TARGETS, "phases")):
        raise click.UsageError("a target is required: give a URL, --urls FILE, or --files html --base URL")
    for group in (TARGETS, LOADS):
        for one, other in combinations(group, 2):
            _exclude(said, one, other)
    for name, others in EXCLUDES.items():
        for other in others:
            _exclude(said, name, other)
    for name, others in NEEDS.items():
        if name in said and not any(other in said for other in others):
            raise click.UsageError(f"{option_name(name)} requires {' or '.join(map(option_name, others))}")
    if "search" in said:
        _check_search(said, said["search"])
    _check_values(said)


def _check_search(said: Mapping[str, Any], kind: str) -> None:
    for name in SEARCH_NEEDS[kind]:
        if name not in said:
            raise click.UsageError(f"--search {kind} requires {option_name(name)}")
    for name in SEARCH_EXCLUDES[kind]:
        if name in said:
            raise click.UsageError(f"--search {kind} and {option_name(name)} cannot be combined")


def _check_values(said: Mapping[str, Any]) -> None:
    if "warm_up" in said and "requests" in said and not any(name in said for name in ("rate", "ramp", "trace")):
        raise click.UsageError("--warm-up with --clients requires --seconds; --requests cannot end such a run")
    if said.get("min_rate", 0.0) > said.get("max_rate", MAX_RATE):
        raise click.UsageError(f"--min must not exceed --max: {said['min_rate']:g} is more than {said['max_rate']:g}")
    if said.get("csv") == STDOUT and said.get("json") == STDOUT:
        raise click.UsageError("--csv - and --json - cannot both write to standard output")


def _exclude(said: Mapping[str, Any], one: str, other: str) -> None:
    if one in said and other in said:
        raise click.UsageError(f"{option_name(one)} and {option_name(other)} cannot be combined")


def option_name(parameter: str) -> str:
    """Return the option as it is written on the command line."""
    short = {"url": "URL", "min_rate": "--min", "max_rate": "--max", "span": "--range", "sources": "--source"}
    return short.get(parameter, f"--{parameter.replace('_', '-')}")
