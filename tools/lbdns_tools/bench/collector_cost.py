"""Measures the CPU and memory use of a real lbdns-collector that receives reports from many agents.

One process simulates all agents and spreads their reports evenly over the interval. Each agent has its own key and
reports every standard metric. The figure 'lag' is the time from the creation of a report to its acceptance by the
collector, measured on one clock. The lag may be slightly negative, because the collector reads the clock once per batch
of datagrams. The figure 'follower age' is the time from when the collector accepts a report until a follower
receives the new reading. The figure 'overflows' counts reports lost because the receive buffer was full. The figure
'sender behind' is the longest delay between a report's scheduled time and its transmission.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lbdns.client.http_client import EVENTS_PATH, HttpLocation, fetch, stream_events
from lbdns_shared.errors import LbdnsError
from lbdns_shared.keys import MasterKey
from lbdns_shared.metric_catalogue import STANDARD_METRICS
from lbdns_shared.report import Report, encode
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import ZONE_HEAD, address_records, pool_table, write_key
from lbdns_tools.bench.measured_processes import MeasuredProcess, running
from lbdns_tools.percentiles import percentile

TAKES: Final = "about 40 s (--seconds + 10 s)"
EXAMPLE: Final = "--agents 10000 --seconds 30 --follow"
POOL: Final = 200  # members per pool
MAX_AGENTS: Final = 50_000
MAX_SECONDS: Final = 600.0
STEP: Final = 0.005  # seconds: the sender wakes at this interval and sends the reports that are due
START: Final = 60.0  # seconds a collector may take to read its zone
SETTLE: Final = 0.5  # seconds from the last report until the collector has accepted all


def write_configuration(folder: Path, agents: int) -> tuple[Path, MasterKey]:
    """Write the configuration, zone and key files of a farm with ``agents`` members. Return the configuration's path
    and the key."""
    names = [f"m{number}" for number in range(agents)]
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


def send_reports(to: tuple[str, int], secret: bytes, agents: int, interval: float, seconds: float) -> tuple[int, float]:
    """Send all agents' reports. Return the number of reports sent, and the sender's longest delay in seconds."""
    master = MasterKey(secret)
    keys = [master.agent_key(f"m{number}") for number in range(agents)]
    chance = random.Random(1)
    loads = [{name: round(chance.uniform(0, 100), 3) for name in STANDARD_METRICS} for _ in range(97)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(to)
        start, sent, behind = time.monotonic(), 0, 0.0
        while (now := time.monotonic() - start) < seconds:
            due = int(now / interval * agents)
            behind = max(behind, (due - sent) / agents * interval - STEP)
            while sent < due:
                host, seq = keys[sent % agents].host, 1 + sent // agents
                report = Report(host, 1, seq, time.time(), interval, loads[sent % len(loads)])
                sock.send(encode(report, keys[sent % agents]))
                sent += 1
            time.sleep(STEP)
    return sent, behind


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


def samples(text: str, name: str) -> Iterator[tuple[str, float]]:
    """Yield a pair for each sample of the metric family ``name``: the value of the sample's last label, and the
    sample's value.
    """
    for match in re.finditer(rf'^{name}(?:{{[^}}]*"([^"]*)"}})? (\S+)$', text, re.MULTILINE):
        yield match[1] or "", float(match[2])


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    """Run the benchmark. The measurement excludes the first interval, in which every host is new to the collector."""
    agents, interval, seconds = options.agents, options.interval, options.seconds
    warm_up = interval + 1.0  # the first interval, in which every host is new to the collector
    config, key = write_configuration(folder, agents)
    command_line = [sys.executable, "-m", "lbdns_collector", "-c", str(config), "--log-format", "json"]
    spawn = multiprocessing.get_context("spawn")
    with running("lbdns-collector", command_line, None, folder / "log") as collector, spawn.Pool(1) as pool:
        collector.await_log('"ready', START, "that it is ready")
        reports = listening_address(collector, "receiving reports on ")
        web = HttpLocation("http://{}:{}".format(*listening_address(collector, "serving http://")))
        probe = FollowerProbe(web) if options.follow else None
        pool.apply_async(os.getpid).get(START)  # wait until the process has started
        sender = pool.apply_async(send_reports, (reports, key.secret, agents, interval, warm_up + seconds))
        time.sleep(warm_up)
        before, started = collector.cpu_seconds(), time.monotonic()
        time.sleep(seconds - SETTLE)
        cpu = collector.cpu_seconds() - before
        took = time.monotonic() - started
        rss = collector.rss()
        sent, behind = sender.get(seconds + 60)
        time.sleep(SETTLE)
        text = fetch(web, "/metrics").decode()
    ages = [1000 * age for age in probe.ages] if probe else []
    counted = {name: int(value) for name, value in samples(text, "lbdns_reports_total")}
    lags = [-1000 * value for _, value in samples(text, "lbdns_host_clock_skew_seconds")]  # each host's newest report
    return {
        "agents": agents,
        "interval_s": interval,
        "seconds": round(took, 1),
        "followed": options.follow,
        "sent": sent,
        "accepted": counted["accepted"],
        "lost": sent - counted["accepted"],
        "overflows": int(dict(samples(text, "lbdns_report_overflows_total"))[""]),
        "dropped": {reason: count for reason, count in counted.items() if count and reason != "accepted"},
        # The longest delay of the sender itself, to which smaller lags may be due
        "sender_behind_ms": round(1000 * max(0.0, behind), 1),
        "cpu_percent": round(100 * cpu / took, 1),
        "cpu_us_per_report": round(1e6 * cpu / (took * agents / interval), 1),
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
