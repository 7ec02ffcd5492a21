"""Measures how well lbdns-scaler scales a farm while a load from a 2014 study rises and falls. The figures are the time
from demand to the first answer that names a new server, the number of failed requests, and the number of servers that
were stopped while clients used them.

Some requests take 4 s, so a server usually still has open connections when it is drained.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from lbdns.demo.child_processes import ChildProcesses
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.farm_watch import FarmWatch
from lbdns_tools.bench.scaled_farm import ScaledFarm, lab_scaled_farm, loopback_farm
from lbdns_tools.scaler.demo.demo_files import rates

TAKES: Final = "about 4 min"
EXAMPLE: Final = "--seconds 90 --highest 30"
TARGET_TEXT: Final = "no failed request, and no server stopped while it had connections"
START: Final = 60.0  # seconds until the first server is in service
AFTER: Final = 120.0  # seconds after the load until only the minimum is in service
FARMS: Final[Mapping[str, Callable[[float, float, Path], AbstractContextManager[ScaledFarm]]]] = {
    "processes": loopback_farm,
    "lab": lab_scaled_farm,
}


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    with FARMS[options.provider](options.highest, options.seconds, folder) as farm:
        watch = FarmWatch(farm)
        watch.until(lambda: watch.in_service == 1, "the first server is in service", START)
        with ChildProcesses() as load:
            load.start("the load", farm.load)
            watch.until(lambda: bool(load.first_end()), "the load ends", farm.plan.load_seconds + AFTER)
        watch.until(lambda: watch.has_shrunk, "one server is left in service, and none is draining", AFTER)
    return results(json.loads((folder / "load.json").read_text("utf-8")), watch, farm)


def results(load: Mapping[str, Any], watch: FarmWatch, farm: ScaledFarm) -> command.Results:
    """Return the figures. ``load`` is the document that lbdns-load has written."""
    (run,) = load["points"][0]["runs"]
    cut = [removal for removal in watch.removals if removal.last]
    found = {
        "requests": run["requests"], "failed": run["failed"], "mean_response_ms": round(1000 * run["mean_s"], 1),
        "most_servers": watch.most, "removed": len(watch.removals),
        "most_connections_while_draining": max((removal.most for removal in watch.removals), default=0),
        "removed_with_connections": len(cut),
    }  # fmt: skip
    if errors := {kind: count for kind, count in run["errors"].items() if count}:
        found["errors"] = errors
    if watch.wanted_at and watch.named_at:
        rise = _rise_before(watch.wanted_at, run["begun"], farm)
        found["demand_to_answer_s"] = round(watch.named_at - rise, 2)
        found["wanted_to_answer_s"] = round(watch.named_at - watch.wanted_at, 2)
    return found | {"met": run["failed"] == 0 and not cut and watch.most > 1}


def _rise_before(moment: float, begun: float, farm: ScaledFarm) -> float:
    """Return the time of the load's last rise before ``moment``. All times are Unix seconds."""
    step = farm.plan.load_seconds / len(rates(farm.plan))
    return begun + max(0.0, moment - begun) // step * step


def tables(results: command.Results) -> command.Tables:
    return [command.figures("a farm whose size follows its load", results)]


def add_options(parser: argparse.ArgumentParser) -> None:
    what = "servers are processes of this host, or web hosts with Apache in a lab; the lab requires root"
    parser.add_argument("--provider", choices=tuple(FARMS), default="processes", help=what)
    command.add_number(parser, "--seconds", float, 60, 3600, 180, "duration of the whole run, in seconds")
    command.add_number(parser, "--highest", float, 5, 150, 50, "highest load in requests/s")
