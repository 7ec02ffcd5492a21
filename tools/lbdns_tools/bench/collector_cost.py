"""What a collector costs: CPU and memory of a real lbdns-collector under the reports of many agents.

``python -m lbdns_tools.bench.collector_cost [--agents 10000] [--interval 1] [--seconds 30] [--follow] [--json]``

One process simulates all agents, evenly spread over the interval, each with a key of its own and all
metrics of the catalogue. Lag is the time from the moment a report is made to the moment it is taken in, by
the clock both share (a little below zero at times: the collector reads it once for a batch of datagrams); the age
at a follower is the time from there until an event stream tells of it.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from lbdns.event_stream import EventReader
from lbdns.keys import MasterKey, new_master_key
from lbdns.metrics import CATALOGUE
from lbdns.report import Report, encode
from lbdns_tools.bench.measuring import percentile

POOL: Final = 200  # members a pool
MAX_AGENTS: Final = 50_000
MAX_SECONDS: Final = 600.0
STEP: Final = 0.005  # seconds: the sender wakes as often, and sends what is due
START: Final = 60.0  # seconds a collector may take to read its zone
SETTLE: Final = 0.5  # seconds after the last report, until all is taken in


@dataclass(frozen=True, slots=True)
class Figures:
    """What came out; times in milliseconds, shares of one core in percent."""

    agents: int
    interval_s: float
    seconds: float
    followed: bool
    sent: int
    accepted: int
    lost: int
    overflows: int
    dropped: dict[str, int]
    sender_behind_ms: float  # the latest the sender itself was; lag below that is not the collector's
    cpu_percent: float
    cpu_us_per_report: float
    rss_mb: float
    lag_p50_ms: float
    lag_p99_ms: float
    lag_max_ms: float
    follower_events: int
    follower_age_p50_ms: float
    follower_age_p99_ms: float


def write_farm(folder: Path, agents: int, key: MasterKey) -> Path:
    """A configuration of ``agents`` members in pools of 200, with its zone and key file."""
    names = [f"m{number}" for number in range(agents)]
    addresses = [f"127.{1 + n // 62500}.{n // 250 % 250}.{1 + n % 250}" for n in range(agents)]
    zone = ["$TTL 60", "@ SOA ns hostmaster 1 3600 600 86400 60", "@ NS ns", "ns A 127.0.0.1"]
    zone += [f"{name} A {address}" for name, address in zip(names, addresses, strict=True)]
    (folder / "farm.zone").write_text("\n".join(zone) + "\n")
    (folder / "report.key").write_text(key.line() + "\n")
    (folder / "report.key").chmod(0o600)
    config = ['[server]\nstate_dir = "state"\n[[zone]]\nname = "farm"\nfile = "farm.zone"']
    for number, start in enumerate(range(0, agents, POOL)):
        members = ", ".join(f'"{name}"' for name in names[start : start + POOL])
        pool = f'name = "p{number}"\nzone = "farm"\nmembers = [{members}]\nnames = {{ best{number} = "best" }}'
        config.append(f"[[pool]]\n{pool}")
    config.append('[collector]\nlisten = ["127.0.0.1:0"]\nkey_file = "report.key"\n[web]\nlisten = "127.0.0.1:0"')
    path = folder / "lbdns.toml"
    path.write_text("\n".join(config) + "\n")
    return path


class Collector:
    """The process that is measured."""

    def __init__(self, config: Path) -> None:
        command = [sys.executable, "-m", "lbdns_collector", "-c", str(config), "--log-format", "json"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        found: dict[str, tuple[str, int]] = {}
        assert self.process.stderr
        deadline = time.monotonic() + START
        for line in self.process.stderr:
            for what, words in (("reports", "receiving reports on "), ("web", "serving http://")):
                if match := re.search(re.escape(words) + r"([0-9.]+):(\d+)", line):
                    found[what] = match[1], int(match[2])
            if '"ready' in line or time.monotonic() > deadline:
                break
        if set(found) != {"reports", "web"}:
            self.stop()
            raise SystemExit(
                "collector_cost: the collector did not start; run 'lbdns-collector --help' to see if it can"
            )
        self.reports, self.web = found["reports"], found["web"]
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.usage = psutil.Process(self.process.pid)

    def cpu_seconds(self) -> float:
        times = self.usage.cpu_times()
        return float(times.user + times.system)

    def metrics(self) -> str:
        connection = http.client.HTTPConnection(*self.web, timeout=60)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)


def send_reports(
    to: tuple[str, int], secret: bytes, agents: int, interval: float, seconds: float, started: Any, result: Any
) -> None:
    """Be all the agents for ``seconds`` from setting the event ``started`` on.

    Puts (sent, seconds behind at worst) into the queue ``result``.
    """
    master = MasterKey(secret)
    keys = [master.agent_key(f"m{number}") for number in range(agents)]
    chance = random.Random(1)
    loads = [{name: round(chance.uniform(0, 100), 3) for name in CATALOGUE} for _ in range(97)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(to)
        started.set()
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
    result.put((sent, behind))


class FollowerProbe:
    """Follows the collector in a thread and notes how old each reading is when it is told."""

    def __init__(self, web: tuple[str, int]) -> None:
        self.ages: list[float] = []
        self.events = 0
        self._connection = http.client.HTTPConnection(*web, timeout=30)
        self._connection.request("GET", "/api/v1/events?changes=1")
        self._response = self._connection.getresponse()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        reader = EventReader()
        with contextlib.suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
            while piece := self._response.read1(65536):
                for event in reader.feed(piece):
                    if event.name == "changes":
                        self.events += 1
                        for pool in json.loads(event.data)["pools"]:
                            self.ages.extend(member["age_s"] for member in pool["members"])

    def stop(self) -> None:
        if self._connection.sock:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._connection.close()


def samples(text: str, name: str) -> Iterator[tuple[str, float]]:
    """Label value (of the last label) and value of every sample of a family."""
    for match in re.finditer(rf'^{name}(?:{{[^}}]*"([^"]*)"}})? (\S+)$', text, re.MULTILINE):
        yield match[1] or "", float(match[2])


def start_sender(to: tuple[str, int], key: MasterKey, agents: int, interval: float, seconds: float) -> tuple[Any, Any]:
    """A process that has begun to send, and the queue its result will be in."""
    spawn = multiprocessing.get_context("spawn")
    sending, result = spawn.Event(), spawn.Queue()
    arguments = (to, key.secret, agents, interval, seconds, sending, result)
    sender = spawn.Process(target=send_reports, args=arguments, daemon=True)
    sender.start()
    if not sending.wait(START):
        raise SystemExit("collector_cost: the process that sends reports did not start")
    return sender, result


def measure(agents: int, interval: float, seconds: float, follow: bool) -> Figures:
    """Run it. The first interval, in which every host is met for the first time, is not counted."""
    key = new_master_key()
    warm_up = interval + 1.0
    with tempfile.TemporaryDirectory(prefix="lbdns-bench-") as folder:
        collector = Collector(write_farm(Path(folder), agents, key))
        try:
            probe = FollowerProbe(collector.web) if follow else None
            sender, result = start_sender(collector.reports, key, agents, interval, warm_up + seconds)
            time.sleep(warm_up)
            before, started = collector.cpu_seconds(), time.monotonic()
            time.sleep(seconds - SETTLE)
            cpu = collector.cpu_seconds() - before
            took = time.monotonic() - started
            rss = collector.usage.memory_info().rss
            sent, behind = result.get(timeout=seconds + 60)
            sender.join(10)
            time.sleep(SETTLE)
            text = collector.metrics()
            if probe:
                probe.stop()
        finally:
            collector.stop()
    ages = [1000 * age for age in probe.ages] if probe else []
    counted = {name: int(value) for name, value in samples(text, "lbdns_reports_total")}
    lags = [-1000 * value for _, value in samples(text, "lbdns_host_clock_skew_seconds")]  # each host's newest report
    return Figures(
        agents=agents,
        interval_s=interval,
        seconds=round(took, 1),
        followed=follow,
        sent=sent,
        accepted=counted["accepted"],
        lost=sent - counted["accepted"],
        overflows=int(dict(samples(text, "lbdns_report_overflows_total"))[""]),
        dropped={reason: count for reason, count in counted.items() if count and reason != "accepted"},
        sender_behind_ms=round(1000 * max(0.0, behind), 1),
        cpu_percent=round(100 * cpu / took, 1),
        cpu_us_per_report=round(1e6 * cpu / (took * agents / interval), 1),
        rss_mb=round(rss / 1e6, 1),
        lag_p50_ms=round(percentile(lags, 0.5), 2),
        lag_p99_ms=round(percentile(lags, 0.99), 2),
        lag_max_ms=round(max(lags, default=0.0), 2),
        follower_events=probe.events if probe else 0,
        follower_age_p50_ms=round(percentile(ages, 0.5), 2),
        follower_age_p99_ms=round(percentile(ages, 0.99), 2),
    )


def show(found: Figures) -> str:
    lines = [
        f"{found.agents} agents at {found.interval_s:g} s, {found.seconds:g} s measured, {os.cpu_count()} cores",
        f"  CPU            {found.cpu_percent:6.1f} % of a core, {found.cpu_us_per_report:.1f} us a report",
        f"  memory         {found.rss_mb:6.1f} MB resident",
        f"  reports        {found.sent} sent, {found.accepted} accepted, {found.lost} lost "
        f"({found.overflows} by a full buffer; dropped: {found.dropped or 'none'})",
        f"  lag            {found.lag_p50_ms:6.2f} ms p50, {found.lag_p99_ms:.2f} p99, {found.lag_max_ms:.2f} at most "
        f"(the sender was up to {found.sender_behind_ms:g} ms behind)",
    ]
    if found.followed:
        lines.append(
            f"  follower       {found.follower_age_p50_ms:6.2f} ms p50, {found.follower_age_p99_ms:.2f} p99 "
            f"from taken in to told, in {found.follower_events} events"
        )
    return "\n".join(lines)


def bounded(kind: type, least: float, most: float) -> Any:
    def read(text: str) -> Any:
        value = kind(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least:g} and {most:g}")
        return value

    return read


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lbdns_tools.bench.collector_cost", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--agents", type=bounded(int, 1, MAX_AGENTS), default=10_000, help="default: 10000")
    parser.add_argument("--interval", type=bounded(float, 0.1, 60), default=1.0, help="seconds, default: 1")
    parser.add_argument("--seconds", type=bounded(float, 2, MAX_SECONDS), default=30.0, help="default: 30")
    parser.add_argument("--follow", action="store_true", help="with one DNS server following the event stream")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args()
    found = measure(options.agents, options.interval, options.seconds, options.follow)
    print(json.dumps(asdict(found)) if options.json else show(found))


if __name__ == "__main__":
    main()
