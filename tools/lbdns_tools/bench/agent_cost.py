"""Measures the CPU and memory use of an agent with every sensor enabled. CPU use is a share of one core.

For comparison, the figure 'floor' is the cost of a Python process that only sleeps and wakes up once per interval.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil

from lbdns.demo.webserver import DemoWebServer
from lbdns_tools import installed_programs
from lbdns_tools.apache_process import apache
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.measured_processes import running

TAKES: Final = "about 65 s (--seconds + 5 s)"
EXAMPLE: Final = "--seconds 120"
CPU_TARGET: Final = 0.5  # % of one core, at an interval of 1 s
RSS_TARGET: Final = 30.0  # MB
TARGET_TEXT: Final = f"at most {CPU_TARGET:g} % of a core and {RSS_TARGET:g} MB of memory"
WARM_UP: Final = 3.0  # seconds; the figures exclude the start of the interpreter


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process, in seconds with nanosecond precision (Linux:
    sched-stats.rst)."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def cost_of(pids: Sequence[int], seconds: float) -> list[dict[str, float]]:
    """Measure all processes at the same time for ``seconds``, and return the CPU and memory use of each.

    PSS (proportional set size) divides each shared page equally among the processes that map it.
    """
    before = [cpu_seconds(pid) for pid in pids]
    start = time.monotonic()
    time.sleep(seconds)
    after = [cpu_seconds(pid) for pid in pids]
    span = time.monotonic() - start
    costs = []
    for pid, old, new in zip(pids, before, after, strict=True):
        memory = psutil.Process(pid).memory_full_info()
        rss, pss = round(memory.rss / 2**20, 2), round(memory.pss / 2**20, 2)
        costs.append({"cpu_percent": round(100.0 * (new - old) / span, 4), "rss_mb": rss, "pss_mb": pss})
    return costs


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    """Measure the cost of an agent and, for comparison, of a process that only sleeps."""
    interval = options.interval
    with ExitStack() as stack:
        if installed_programs.is_there("apache2"):
            url = stack.enter_context(apache(options.mpm)).status_url
            server = f"Apache ({options.mpm})"
        else:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            DemoWebServer("web", [listener]).start()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/server-status?auto"
            server = "the demo's web server, because Apache is not installed"
        receiver = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        receiver.bind(("127.0.0.1", 0))
        collector = f"127.0.0.1:{receiver.getsockname()[1]}"
        agent = [sys.executable, "-m", "lbdns_agent", "--collector", collector, "--interval", str(interval)]
        agent += ["--server-status", url, "--log-level", "warning"]
        sleeper = [sys.executable, "-c", f"import time\nwhile True: time.sleep({interval})"]
        commands = {"agent": agent, "sleeper": sleeper}
        started = [stack.enter_context(running(name, line, None, folder / name)) for name, line in commands.items()]
        time.sleep(WARM_UP)
        ours, floor = cost_of([one.process.pid for one in started], options.seconds)
    target = CPU_TARGET / min(interval, 1.0)
    return {
        "server": server,
        "seconds": options.seconds,
        "interval": interval,
        "agent": ours,
        "floor": floor,
        "target": {"cpu_percent": target, "rss_mb": RSS_TARGET},
        "met": ours["cpu_percent"] <= target and ours["rss_mb"] <= RSS_TARGET,
    }


def tables(results: command.Results) -> command.Tables:
    title = f"agent (interval {results['interval']} s) with {results['server']}, measured for {results['seconds']} s"
    return [command.side_by_side(title, {name: results[name] for name in ("agent", "floor", "target")})]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--seconds", float, 0.1, 3600, 60, "seconds of measurement")
    command.add_number(parser, "--interval", float, 0.1, 60, 1, "seconds between two reports")
    parser.add_argument(
        "--mpm",
        choices=("prefork", "worker", "event"),
        default="prefork",
        help="Apache's multi-processing module (default: prefork)",
    )
