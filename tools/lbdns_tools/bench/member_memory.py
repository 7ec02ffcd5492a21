"""Measures the memory that a collector and a DNS server need for each member.

The benchmark runs a farm of a few members and a farm of many, each with a collector and a DNS server that follows it.
The memory per member is the growth of a program's resident memory from the first farm to the second, divided by the
number of further members. Each farm runs twice, with and without a history, so that three parts can be told apart:

'configuration' is the memory of a program that is ready, before any agent has reported: names, zones, pools and
answers. 'reports' is the further memory once all agents have reported for --seconds: readings, estimates, plans, and
the buffers for metrics and followers. 'history' is the further memory of a program that also records a history. In the
first minutes, the history still grows by the moments that its longer tiers gather.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.many_agents_farm import ManyAgentsFarm, ScaleCase
from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.bench.simulated_agents import SimulatedAgents

TAKES: Final = "about 3 minutes (four farms, each --seconds + 15 s)"
EXAMPLE: Final = "--agents 500 5000 --seconds 60"
TARGET: Final = 4.0  # kB per member
TARGET_TEXT: Final = f"at most {TARGET:g} kB per member, in the collector and in the DNS server"
PROGRAMS: Final = ("collector", "server")
PARTS: Final = ("configuration", "reports", "history", "total")

#: The memory of one program at the start and at the end, in bytes
StartAndEnd = tuple[int, int]


def measure_farm(folder: Path, agents: int, history: bool, seconds: float, interval: float) -> dict[str, StartAndEnd]:
    """Run a farm, and return the memory of its programs. Raises LbdnsError."""
    with ManyAgentsFarm(folder, ScaleCase(agents, 1, 1, False, history)) as farm:
        before = {part.name.split()[0]: part.rss() for part in farm.parts}
        with SimulatedAgents(farm.key, agents, interval, farm.target):
            farm.await_steady()
            time.sleep(seconds)
            return {name: (before[name], part.rss()) for part in farm.parts if (name := part.name.split()[0]) in before}


def memory_by_part(few: Mapping[bool, StartAndEnd], many: Mapping[bool, StartAndEnd], members: int) -> dict[str, float]:
    """Return a program's memory in kB per member, by part. ``few`` and ``many`` contain its memory in both farms, with
    and without a history, and ``members`` is the number of further members in the second farm."""

    def growth(history: bool) -> StartAndEnd:
        (start, end), (large_start, large_end) = few[history], many[history]
        return large_start - start, large_end - end

    (plain_start, plain_end), (start, total) = growth(False), growth(True)
    reports = plain_end - plain_start
    found = zip(PARTS, (start, reports, total - start - reports, total), strict=True)
    return {part: round(size / members / 1000, 2) for part, size in found}


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    small, large = min(options.agents), max(options.agents)
    if small == large:
        raise BenchmarkError("--agents: specify two different numbers")
    memory: dict[tuple[int, bool], dict[str, StartAndEnd]] = {}
    for agents in (small, large):
        for history in (False, True):
            command.progress(f"{agents} agents, {'with' if history else 'without'} a history")
            place = folder / f"{agents}-{history}"
            memory[agents, history] = measure_farm(place, agents, history, options.seconds, options.interval)
    kilobytes = {}
    for program in PROGRAMS:
        few, many = ({kept: memory[agents, kept][program] for kept in (False, True)} for agents in (small, large))
        kilobytes[program] = memory_by_part(few, many, large - small)
    return {
        "agents": [small, large],
        "seconds": options.seconds,
        "interval_s": options.interval,
        "kb_per_member": kilobytes,
        "memory_mb": {name: round(end / 1e6, 1) for name, (_, end) in memory[large, True].items()},
        "met": all(parts["total"] <= TARGET for parts in kilobytes.values()),
    }


def tables(results: command.Results) -> command.Tables:
    found: Mapping[str, Mapping[str, Any]] = results["kb_per_member"]
    small, large = results["agents"]
    rows = [
        (program, *(parts[part] for part in PARTS), results["memory_mb"][program]) for program, parts in found.items()
    ]
    title = f"memory per member (kB), from {small} to {large} members"
    yield command.table(title, ("program", *PARTS, f"MB with {large}"), rows)


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_numbers(parser, "--agents", 1, 100_000, [500, 5000], "the numbers of agents of both farms")
    command.add_number(parser, "--interval", float, 0.1, 60, 2, "seconds between two reports from the same agent")
    command.add_number(parser, "--seconds", float, 1, 3600, 20, "seconds from the first reports to the measurement")
