"""Measures the CPU and memory use of a real lbdns-collector that receives reports from many agents.

A few processes simulate all agents and spread their reports evenly over the interval. Each agent has its own key and
reports every standard metric. The measurement starts when all members have reported and the collector has
announced this. If more than 1 % of the reports are lost during the measurement, the results contain no CPU time per
report, because lost reports cost less.

The figure 'lag' is the time from the creation of a report to its acceptance by the collector, measured on one clock,
for at most 2,000 agents. The lag may be slightly negative, because the collector reads the clock once per batch of
datagrams. The figure 'follower age' is the time from when the collector accepts a report until a follower receives the
new reading. The figure 'overflows' counts reports lost because the receive buffer was full, including those before the
measurement. The figure 'sender behind' is the longest delay between a report's scheduled time and its transmission.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Final

from lbdns.client.http_client import EVENTS_PATH, HttpLocation, stream_events
from lbdns_shared.errors import LbdnsError
from lbdns_shared.keys import MasterKey
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.collector_counts import await_all, await_steady, cost_figures, metrics_text, read_counts, samples
from lbdns_tools.bench.dns.benchmark_farm import ZONE_HEAD, address_records, pool_table, write_key
from lbdns_tools.bench.measured_processes import MeasuredProcess, running
from lbdns_tools.bench.report_transports import ReportTarget
from lbdns_tools.bench.simulated_agents import SimulatedAgents, agent_name
from lbdns_tools.percentiles import percentile

TAKES: Final = "about 40 s (--seconds + 10 s)"
EXAMPLE: Final = "--agents 10000 --seconds 30 --follow"
POOL: Final = 200  # members per pool
MAX_AGENTS: Final = 50_000
MAX_SECONDS: Final = 600.0
START: Final = 60.0  # seconds a collector may take to read its zone


def write_configuration(folder: Path, agents: int) -> tuple[Path, MasterKey]:
    """Write the configuration, zone and key files of a farm with ``agents`` members. Return the configuration's path
    and the key."""
    names = [agent_name(number) for number in range(agents)]
    (folder / "farm.zone").write_text(ZONE_HEAD + address_records(names))
    config = ['[server]\nstate_dir = "state"\n[[zone]]\nname = "farm"\nfile = "farm.zone"']
    for number, start in enumerate(range(0, agents, POOL)):
        config.append(pool_table(f"p{number}", "farm", names[start : start + POOL], f'best{number} = "best"'))
    config.append('[collector]\nlisten = ["127.0.0.1:0"]\nkey_file = "report.key"\n[web]\nlisten = "127.0.0.1:0"')
    path = folder / "lbdns.toml"
    path.write_text("\n".join(config) + "\n")
    return path, write_key(folder)


def listening_address(collector: MeasuredProcess, log_text: str) -> tuple[str, int]:
    """Return the address and port that follow ``log_text`` in the collector's log."""
    found = collector.await_log(re.escape(log_text) + r"([0-9.]+):(\d+)", START, "where it listens")
    return found[1], int(found[2])


class FollowerProbe:
    """Follows the collector's event stream, and records how old each reading is when it arrives (in seconds)."""

    def __init__(self, web: HttpLocation) -> None:
        self.ages: list[float] = []
        self.events = 0
        threading.Thread(target=self._read, args=(web,), daemon=True).start()

    def _read(self, web: HttpLocation) -> None:
        with contextlib.suppress(LbdnsError):  # the collector has ended
            for event in stream_events(web, f"{EVENTS_PATH}?changes=1"):
                if event.name == "changes":
                    self.events += 1
                    for pool in json.loads(event.data)["pools"]:
                        self.ages.extend(member["age_s"] for member in pool["members"])


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    """Run the benchmark. The measurement excludes the time in which the members are new to the collector."""
    agents, interval = options.agents, options.interval
    config, key = write_configuration(folder, agents)
    command_line = [sys.executable, "-m", "lbdns_collector", "-c", str(config), "--log-format", "json"]
    with running("lbdns-collector", command_line, None, folder / "log") as collector:
        collector.await_log('"ready', START, "that it is ready")
        port = listening_address(collector, "receiving reports on ")[1]
        web = HttpLocation("http://{}:{}".format(*listening_address(collector, "serving http://")))
        probe = FollowerProbe(web) if options.follow else None
        with SimulatedAgents(key, agents, interval, ReportTarget((port,))) as simulated:
            await_steady(web, agents)
            if probe:
                probe.ages.clear()
            sent_before, before = simulated.sent, read_counts(web)
            cpu_before, started = collector.cpu_seconds(), time.monotonic()
            time.sleep(options.seconds)
            after, took = read_counts(web), time.monotonic() - started
            cpu, rss = collector.cpu_seconds() - cpu_before, collector.rss()
            sent, behind = simulated.stop(), simulated.behind
        total = await_all(lambda: read_counts(web), sent)
        text = metrics_text(web)
    ages = [1000 * age for age in probe.ages] if probe else []
    lags = [-1000 * value for _, value in samples(text, "lbdns_host_clock_skew_seconds")]  # each host's newest report
    lost = sent - total.accepted - before.known_lost
    return {
        "agents": agents,
        "interval_s": interval,
        "seconds": round(took, 1),
        "followed": options.follow,
        "sent": sent,
        "accepted": total.accepted,
        "lost": sent - total.accepted,
        "overflows": total.overflows,
        "dropped": total.dropped,
        # The longest delay of the sender itself, to which smaller lags may be due
        "sender_behind_ms": round(1000 * behind, 1),
        "cpu_percent": round(100 * cpu / took, 1),
        **cost_figures(cpu, after.accepted - before.accepted, sent - sent_before, lost),
        "rss_mb": round(rss / 1e6, 1),
        "lag_p50_ms": round(percentile(lags, 50), 2),
        "lag_p99_ms": round(percentile(lags, 99), 2),
        "lag_max_ms": round(max(lags, default=0.0), 2),
        "follower_events": probe.events if probe else 0,
        "follower_age_p50_ms": round(percentile(ages, 50), 2),
        "follower_age_p99_ms": round(percentile(ages, 99), 2),
    }


def tables(results: command.Results) -> command.Tables:
    return [command.figures("cost of receiving reports from agents (CPU use as a percentage of one core)", results)]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--agents", int, 1, MAX_AGENTS, 10_000, "number of agents")
    command.add_number(parser, "--interval", float, 0.1, 60, 1, "seconds between two reports from the same agent")
    command.add_number(parser, "--seconds", float, 2, MAX_SECONDS, 30, "seconds of measurement")
    parser.add_argument(
        "--follow", action="store_true", help="also follow the collector's event stream, as a DNS server does"
    )
