"""What an agent costs: its share of one core and its memory, with every sensor on.

Beside it, the floor: a Python process that only sleeps for one interval after another.

``python -m lbdns_tools.bench.agent_cost [--seconds 60] [--interval 1] [--json] [--fail]``
"""

from __future__ import annotations

import argparse
import http.server
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from lbdns_tools import installed
from lbdns_tools.apache import apache

CPU_TARGET: Final = 0.5  # % of one core, at an interval of 1 s
RSS_TARGET: Final = 30.0  # MB
WARM_UP: Final = 3.0  # seconds: the start of an interpreter is no part of the figure


@dataclass(frozen=True, slots=True)
class Figures:
    """``cpu_percent`` of one core; ``rss_mb`` resident, ``pss_mb`` with shared pages divided by their users."""

    cpu_percent: float
    rss_mb: float
    pss_mb: float


class _Status(http.server.BaseHTTPRequestHandler):
    """A status page for machines without Apache."""

    requests = 0

    def do_GET(self) -> None:
        _Status.requests += 1
        page = f"Total Accesses: {_Status.requests}\nBusyWorkers: 1\nIdleWorkers: 49\nScoreboard: W{'_' * 49}\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def status_server() -> Iterator[str]:
    """The URL of a small server that speaks server-status?auto, in this process."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Status)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/server-status?auto"
    finally:
        server.shutdown()
        server.server_close()


def cpu_seconds(pid: int) -> float:
    """CPU seconds of all threads of a process, to the nanosecond (Documentation/scheduler/sched-stats.rst)."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident and proportional set size in MB (proc_pid_smaps(5)); without smaps_rollup the second is the first."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith(" kB")}
    rss = kilobytes.get("Rss", kilobytes.get("VmRSS", 0))
    return rss / 1024, kilobytes.get("Pss", rss) / 1024


@contextmanager
def process(command: Sequence[str]) -> Iterator[int]:
    """A process for the time of the measurement; its pid."""
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield started.pid
    finally:
        started.send_signal(signal.SIGTERM)
        started.wait(timeout=10)


def measure(pids: Sequence[int], seconds: float) -> list[Figures]:
    """The figures of running processes over the same ``seconds``."""
    before = [cpu_seconds(pid) for pid in pids]
    start = time.monotonic()
    time.sleep(seconds)
    after = [cpu_seconds(pid) for pid in pids]
    span = time.monotonic() - start
    return [
        Figures(100.0 * (new - old) / span, *memory_mb(pid)) for pid, old, new in zip(pids, before, after, strict=True)
    ]


def run(seconds: float, interval: float, mpm: str) -> dict[str, object]:
    """Measure an agent and a process that only sleeps; everything that is to be shown."""
    with ExitStack() as stack:
        if installed.is_there("apache2"):
            url = stack.enter_context(apache(mpm)).status_url
            server = f"Apache ({mpm})"
        else:
            url = stack.enter_context(status_server())
            server = "a small server; Apache is not installed"
        receiver = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        receiver.bind(("127.0.0.1", 0))
        collector = f"127.0.0.1:{receiver.getsockname()[1]}"
        agent = [sys.executable, "-m", "lbdns_agent", "--collector", collector, "--interval", str(interval)]
        agent += ["--server-status", url, "--log-level", "warning"]
        agent_pid = stack.enter_context(process(agent))
        sleeper = f"import time\nwhile True: time.sleep({interval})"
        idle_pid = stack.enter_context(process([sys.executable, "-c", sleeper]))
        time.sleep(WARM_UP)
        ours, floor = measure([agent_pid, idle_pid], seconds)
    target = CPU_TARGET / min(interval, 1.0)
    return {
        "server": server,
        "seconds": seconds,
        "interval": interval,
        "agent": asdict(ours),
        "floor": asdict(floor),
        "target": {"cpu_percent": target, "rss_mb": RSS_TARGET},
        "met": ours.cpu_percent <= target and ours.rss_mb <= RSS_TARGET,
    }


def _table(result: dict[str, object]) -> str:
    lines = [f"agent every {result['interval']} s beside {result['server']}, over {result['seconds']} s"]
    lines.append(f"{'':<28} {'% of a core':>12} {'RSS MB':>8} {'PSS MB':>8}")
    for label, key in (("agent", "agent"), ("floor: Python that sleeps", "floor"), ("target", "target")):
        figures = result[key]
        assert isinstance(figures, dict)
        pss = f"{figures['pss_mb']:8.1f}" if "pss_mb" in figures else ""
        lines.append(f"{label:<28} {figures['cpu_percent']:12.3f} {figures['rss_mb']:8.1f} {pss}")
    lines.append("target met" if result["met"] else "target MISSED")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; exit status 1 with --fail when the target is missed."""
    parser = argparse.ArgumentParser(prog="agent_cost", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0, help="of measurement (60)")
    parser.add_argument("--interval", type=float, default=1.0, help="of the agent's reports, seconds (1)")
    parser.add_argument("--mpm", choices=("prefork", "worker", "event"), default="prefork", help="of Apache (prefork)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--fail", action="store_true", help="exit status 1 when the target is missed")
    arguments = parser.parse_args(argv)
    result = run(arguments.seconds, arguments.interval, arguments.mpm)
    print(json.dumps(result, indent=2) if arguments.json else _table(result))
    return 1 if arguments.fail and not result["met"] else 0


if __name__ == "__main__":
    sys.exit(main())
