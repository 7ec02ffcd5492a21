"""Freshness: the time from a report leaving an agent to the first answer that reflects it.

Each report makes its sender the best member, so the first answer that names the sender is the first to reflect it.
Queries go out one after another while the change is awaited, and none otherwise.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lbdns.keys import MasterKey, new_master_key
from lbdns.report import Report, encode
from lbdns_tools.bench.dns.farm import plane_line
from lbdns_tools.bench.measuring import percentile
from lbdns_tools.ports import free_port

LIMIT = 2.0  # s: a report that shows nothing for so long is lost
TARGET = 10.0  # ms, the 99th percentile at three agents
EPILOG = "example: python -m lbdns_tools.bench.freshness --agents 3 --reports 300"


def write_farm(folder: Path, agents: int, key: MasterKey, ports: tuple[int, int], plane: str = "auto") -> Path:
    """A farm whose name ``best`` is argmax(score), so that every report shows at once. The configuration's path."""
    dns_port, report_port = ports
    members = [f"web{i}" for i in range(agents)]
    addresses = "".join(f"{name} A 127.0.{1 + i // 250}.{1 + i % 250}\n" for i, name in enumerate(members))
    (folder / "bench.zone").write_text(
        f"$TTL 60\n@ SOA ns hostmaster 1 60 60 60 60\n@ NS ns\nns A 127.0.0.1\n{addresses}"
    )
    (folder / "report.key").touch(mode=0o600)
    (folder / "report.key").write_text(key.line() + "\n")
    config = folder / "lbdns.toml"
    config.write_text(
        f'[server]\nlisten = ["127.0.0.1:{dns_port}"]\nstate_dir = "state"\n{plane_line(plane)}'
        f'[collector]\nlisten = ["127.0.0.1:{report_port}"]\nkey_file = "report.key"\n'
        '[web]\nlisten = "off"\n'
        '[[zone]]\nname = "bench"\nfile = "bench.zone"\n'
        f'[[pool]]\nname = "web"\nzone = "bench"\nmembers = {json.dumps(members)}\nnames = {{ best = "best_score" }}\n'
    )
    return config


class Client:
    """Asks one server for best.bench, over and over."""

    QUESTION = b"\x04best\x05bench\0\0\1\0\1"

    def __init__(self, port: int) -> None:
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.connect(("127.0.0.1", port))
        self._sock.settimeout(0.2)

    def best(self) -> bytes:
        """The address that the server names now (4 bytes). Raises OSError when no answer comes."""
        query = random.randbytes(2) + b"\1\0\0\1\0\0\0\0\0\0" + self.QUESTION
        self._sock.send(query)
        while True:
            answer = self._sock.recv(512)
            if answer[:2] == query[:2]:
                return answer[-4:]


def measure(agents: int, reports: int, interval: float) -> list[float]:
    """Milliseconds, for each of ``reports`` reports; ``inf`` for one that never showed."""
    key = new_master_key()
    ports = free_port(), free_port()
    with tempfile.TemporaryDirectory() as name:
        config = write_farm(Path(name), agents, key, ports)
        command = [sys.executable, "-m", "lbdns", "serve", "-c", str(config), "--log-level", "error"]
        with subprocess.Popen(command) as server:
            try:
                client = Client(ports[0])
                _await_answer(client)
                return send_and_watch(client, ports[1], key, agents, reports, interval)
            finally:
                server.terminate()


def _await_answer(client: Client) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            client.best()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def send_and_watch(
    client: Client, port: int, key: MasterKey, agents: int, reports: int, interval: float
) -> list[float]:
    """Be the agents, and ask ``client`` after each report. Milliseconds of each."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(("127.0.0.1", port))
    begin = time.monotonic()
    found = []
    for number in range(reports):
        agent = number % agents
        host = f"web{agent}"
        # Agents are spread over the interval, a little unevenly
        due = begin + (number + random.random() / 2) * interval / agents
        time.sleep(max(0.0, due - time.monotonic()))
        report = Report(host, 1, number + 1, time.time(), interval, {"requests_per_s": float(number + 1)})
        datagram = encode(report, key.agent_key(host))
        expected = bytes((127, 0, 1 + agent // 250, 1 + agent % 250))
        sent = time.perf_counter()
        sender.send(datagram)
        while _asked(client) != expected:
            if time.perf_counter() - sent > LIMIT:
                found.append(math.inf)
                break
        else:
            found.append((time.perf_counter() - sent) * 1000)
    return found


def _asked(client: Client) -> bytes:
    """What the server names now; nothing when query or answer is lost, as happens under load."""
    try:
        return client.best()
    except TimeoutError:
        return b""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG)
    parser.add_argument("--agents", type=int, default=3)
    parser.add_argument("--reports", type=int, default=300, help="how many, over all agents")
    parser.add_argument("--interval", type=float, default=0.2, help="seconds between two reports of one agent")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    times = measure(arguments.agents, arguments.reports, arguments.interval)
    figures = {f"p{share:g}_ms": round(percentile(times, share / 100), 3) for share in (50, 95, 99, 100)}
    figures["lost"] = sum(map(math.isinf, times))
    if arguments.json:
        print(json.dumps(figures))
    else:
        print(f"{arguments.agents} agents, a report each every {arguments.interval:g} s, {arguments.reports} reports:")
        print("  ".join(f"{name} {value}" for name, value in figures.items()), f"(target: p99 at most {TARGET:g} ms)")
    return 0 if figures["p99_ms"] <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
