"""Measures farms of many agents, several collectors and several DNS servers.

A few processes simulate the agents, which send signed reports over UDP or, with --bus, also over a NATS server. Over
UDP, each agent reports to one of the collectors. Over a bus, every collector receives every report. The DNS servers
follow a single collector over HTTP, and several collectors over the bus. Two further members send reports that change
an answer of the first DNS server; the time from such a report to the changed answer is measured.

Each measurement starts when all members have reported to all programs, and all programs have announced this. CPU use is
a percentage of one core. The note 'busiest' names the part that is closest to its limit, and therefore saturates first:
a collector or a DNS server can use one core, and the machine all of its cores. The cost of a report is the CPU time of
the collectors per report that one of them has accepted. If more than 1 % of the reports are lost, the results contain
no such cost. All agents of one sending process share a connection to the NATS server, so its memory for connections is
not measured.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.collector_counts import MOST_LOST, ReportCounts, await_all, cost_figures
from lbdns_tools.bench.dns.answer_freshness import freshness_figures, send_and_watch
from lbdns_tools.bench.many_agents_farm import PROBED, ManyAgentsFarm, ScaleCase
from lbdns_tools.bench.simulated_agents import SimulatedAgents

TAKES: Final = "about 3 minutes (four cases, each --seconds + 30 s)"
EXAMPLE: Final = "--agents 1000 10000 --collectors 1 2 --servers 4 --bus"
TARGET: Final = 50.0  # ms, the 99th percentile of the time from a report to a changed answer
TARGET_TEXT: Final = f"in every case, at most 1 % of the reports lost, and p99 at most {TARGET:g} ms"
PROBE_INTERVAL: Final = 0.2  # seconds between two reports of one probed member
MACHINE: Final = "machine"
SENDERS: Final = "senders"


@dataclass(frozen=True, slots=True)
class FarmSample:
    """The counters of a farm at one moment. ``cpu`` contains the CPU seconds of each part so far."""

    time: float  # monotonic seconds
    cpu: Mapping[str, float]
    counts: ReportCounts
    sent: int
    bytes: int  # of reports
    traffic: int  # bytes that the loopback interface has carried


def take_sample(farm: ManyAgentsFarm, agents: SimulatedAgents) -> FarmSample:
    counts = farm.counts()
    cpu = {part.name: part.cpu_seconds() for part in farm.parts}
    cpu[SENDERS] = agents.cpu_seconds()
    machine = psutil.cpu_times()
    cpu[MACHINE] = sum(machine[:8]) - machine.idle - machine.iowait  # the other columns are parts of the first two
    traffic = psutil.net_io_counters(pernic=True)["lo"].bytes_sent
    return FarmSample(time.monotonic(), cpu, counts, agents.sent, agents.bytes, traffic)


def measure_case(folder: Path, case: ScaleCase, seconds: float, interval: float) -> command.Results:
    """Run a farm, and return its figures. Raises LbdnsError."""
    with ManyAgentsFarm(folder, case) as farm:
        with SimulatedAgents(farm.key, case.agents, interval, farm.target) as agents:
            farm.await_steady()
            before = take_sample(farm, agents)
            with contextlib.closing(farm.target.connect()) as transport:

                def send(host: str, datagram: bytes) -> None:
                    transport.send(host, datagram)
                    transport.flush()

                reports = round(seconds / PROBE_INTERVAL * len(PROBED))
                times = send_and_watch(farm.watched, send, reports, PROBE_INTERVAL, seconds)
            after = take_sample(farm, agents)
            memory = {part.name: round(part.rss() / 1e6, 1) for part in farm.parts}
            sent, behind = agents.stop() + len(times), agents.behind
        total = await_all(farm.counts, sent * case.copies)
    lost = sent * case.copies - total.accepted - before.counts.known_lost
    return {
        "agents": case.agents,
        "collectors": case.collectors,
        "servers": case.servers,
        "bus": case.by_bus,
        "lost": lost,
        "sender_behind_ms": round(1000 * behind, 1),
        **figures_between(before, after, case, lost, (sent - before.sent) * case.copies),
        "memory_mb": memory,
        "answers": {name: figure for name, figure in freshness_figures(times, TARGET).items() if name != "met"},
    }


def figures_between(before: FarmSample, after: FarmSample, case: ScaleCase, lost: int, sent: int) -> command.Results:
    """Return the rates between two samples, and the cost of a report. ``lost`` and ``sent`` count each report as often
    as there are collectors that should receive it."""
    took = after.time - before.time
    percent = {part: round(100 * (after.cpu[part] - before.cpu[part]) / took, 1) for part in after.cpu}
    at_collectors = sum(after.cpu[part] - before.cpu[part] for part in after.cpu if part.startswith("collector"))
    return {
        "seconds": round(took, 1),
        "reports_per_s": round((after.sent - before.sent) / took),
        "report_bytes_per_s": round((after.bytes - before.bytes) / took),
        "loopback_bytes_per_s": round((after.traffic - before.traffic) / took),
        "cpu_percent": percent,
        "busiest": busiest(percent, os.cpu_count() or 1),
        **cost_figures(at_collectors, after.counts.accepted - before.counts.accepted, sent, lost),
    }


def busiest(percent: Mapping[str, float], cores: int) -> str:
    """Return the name and the use of the part that is closest to its limit. The senders are not part of a real farm."""

    def use(part: str) -> float:
        return percent[part] / (cores if part in (MACHINE, "nats-server") else 1)

    part = max((part for part in percent if part != SENDERS), key=use)
    return f"{part} ({use(part):.0f} %)"


def memory_per_member(cases: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the growth of a collector's and of a server's memory in kB per member, from the smallest to the largest
    farm with the same number of collectors and the same transport. Keyed by that and by the kind of program."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for label, case in cases.items():
        groups.setdefault(label.partition(", ")[2], []).append(case)
    found: dict[str, dict[str, float]] = {}
    for label, group in groups.items():
        by_size = sorted(group, key=lambda case: int(case["agents"]))
        small, large = by_size[0], by_size[-1]
        more = large["agents"] - small["agents"]
        if more:
            found[label] = {
                kind: round(1000 * (_mean_memory(large, kind) - _mean_memory(small, kind)) / more, 2)
                for kind in ("collector", "server")
            }
    return found


def _mean_memory(case: Mapping[str, Any], kind: str) -> float:
    """Return the mean memory of a program in MB."""
    found = [memory for part, memory in case["memory_mb"].items() if part.startswith(kind)]
    return float(sum(found)) / len(found)


def cost_ratios(cases: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the cost of a report over the bus relative to UDP, for each size that was measured over both."""
    found: dict[str, float] = {}
    for label, case in cases.items():
        other = cases.get(label.removesuffix("UDP") + "bus", {})
        if not case["bus"] and "cpu_us_per_report" in case and "cpu_us_per_report" in other:
            found[label.removesuffix(", UDP")] = round(other["cpu_us_per_report"] / case["cpu_us_per_report"], 2)
    return found


def chosen_cases(options: argparse.Namespace) -> Iterator[ScaleCase]:
    for by_bus in (False, True) if options.bus else (False,):
        for agents in options.agents:
            for collectors in options.collectors:
                yield ScaleCase(agents, collectors, options.servers, by_bus)


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    cases: dict[str, command.Results] = {}
    for number, case in enumerate(chosen_cases(options)):
        command.progress(case.label)
        cases[case.label] = measure_case(folder / str(number), case, options.seconds, options.interval)
    met = all(
        case["lost_percent"] <= 100 * MOST_LOST and case["answers"]["p99_ms"] <= TARGET for case in cases.values()
    )
    notes = [f"{label}: {case['note']}" for label, case in cases.items() if "note" in case]
    return {
        "interval_s": options.interval,
        "cases": cases,
        "kb_per_member": memory_per_member(cases),
        "bus_cost_ratio": cost_ratios(cases),
        "met": met,
        "note": "; ".join(notes),
    }


def tables(results: command.Results) -> command.Tables:
    cases = results["cases"]
    columns = ("case", "reports/s", "kB/s", "lost %", "us/report", "p50 ms", "p99 ms", "busiest")
    yield command.table("reports of many agents, and the time from a report to a changed answer", columns, [
        (
            label, case["reports_per_s"], round(case["report_bytes_per_s"] / 1000), case["lost_percent"],
            case.get("cpu_us_per_report", ""), case["answers"]["p50_ms"], case["answers"]["p99_ms"], case["busiest"],
        )
        for label, case in cases.items()
    ])  # fmt: skip
    parts = ("collector", "server", "nats-server", SENDERS, MACHINE)
    rows = [
        (label, *(f"{_total(case, 'cpu_percent', part)} / {_total(case, 'memory_mb', part)}" for part in parts))
        for label, case in cases.items()
    ]
    yield command.table("CPU (% of a core) / memory (MB), all programs of a kind together", ("case", *parts), rows)
    for title, key in (("memory per member (kB)", "kb_per_member"), ("cost over the bus / UDP", "bus_cost_ratio")):
        if results[key]:
            yield command.figures(title, results[key])


def _total(case: Mapping[str, Any], key: str, part: str) -> str:
    """Return the sum of a figure over all programs of one kind, or "-" if it was not measured."""
    found = [figure for name, figure in case[key].items() if name.partition(" ")[0] == part]
    return f"{sum(found):.1f}" if found else "-"


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_numbers(parser, "--agents", 1, 100_000, [1000, 10_000], "numbers of agents")
    command.add_numbers(parser, "--collectors", 1, 10, [1, 2], "numbers of collectors")
    command.add_number(parser, "--servers", int, 1, 4, 1, "number of DNS servers")
    command.add_number(parser, "--interval", float, 0.1, 60, 1, "seconds between two reports from the same agent")
    command.add_number(parser, "--seconds", float, 2, 600, 15, "seconds of measurement of each case")
    parser.add_argument("--bus", action="store_true", help="also measure each case with reports over a NATS server")
