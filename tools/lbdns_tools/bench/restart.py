"""No query lost: a known number of queries is sent while the server reloads, restarts, or loses workers; every one of
them must be answered.

The load keeps a bounded number of queries under way, from many ports, so that nothing is lost but by the server.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lbdns.control_client import order
from lbdns.errors import LbdnsError
from lbdns_tools.ports import free_port

PORTS: Final = 32  # of the client: the kernel divides them between the workers' sockets
WINDOW: Final = 8  # queries under way from each port
GIVE_UP: Final = 3.0  # s without an answer: the query is lost
START: Final = 30.0  # s for a server to start, or to end
QUESTION: Final = b"\x05round\x05robin\x05bench\0\0\1\0\1"
EPILOG = "example: python -m lbdns_tools.bench.restart --queries 500000 --workers 2 --take-over"


@dataclass
class Tally:
    """What became of the queries."""

    sent: int = 0
    answered: int = 0
    lost: int = 0
    unexpected: int = 0  # datagrams that are no answer to a query under way
    longest: float = 0.0  # s from a query to its answer
    seconds: float = 0.0
    deeds: list[str] = field(default_factory=list)  # what was done meanwhile


class Load:
    """Sends ``queries``, and more while ``goes_on`` is set, and awaits their answers."""

    def __init__(self, port: int, queries: int, rate: float, question: bytes = QUESTION) -> None:
        """``rate`` is in queries/s; 0: as many as are answered."""
        self.tally = Tally()
        self.goes_on = threading.Event()
        self._queries, self._rate, self._question = queries, rate, question
        self._sockets = []
        for _ in range(PORTS):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.setblocking(False)
            sock.connect(("127.0.0.1", port))
            self._sockets.append(sock)
        self._under_way: list[dict[bytes, float]] = [{} for _ in range(PORTS)]

    def run(self) -> Tally:
        began = time.monotonic()
        poll = select.poll()
        places = {sock.fileno(): place for place, sock in enumerate(self._sockets)}
        for sock in self._sockets:
            poll.register(sock, select.POLLIN)
        swept = began
        while self._has_more() or any(self._under_way):
            now = time.monotonic()
            for place in range(PORTS):
                self._send(place, now, now - began)
            for descriptor, _ in poll.poll(5):
                self._receive(places[descriptor])
            if now - swept > GIVE_UP / 10:
                swept = now
                self._sweep(now)
        self.tally.seconds = time.monotonic() - began
        for sock in self._sockets:
            sock.close()
        return self.tally

    def _has_more(self) -> bool:
        return self.tally.sent < self._queries or self.goes_on.is_set()

    def _send(self, place: int, now: float, elapsed: float) -> None:
        tally, under_way, sock = self.tally, self._under_way[place], self._sockets[place]
        while len(under_way) < WINDOW and self._has_more():
            if self._rate and tally.sent > self._rate * elapsed:
                return
            tally.sent += 1
            number = (tally.sent & 0xFFFF).to_bytes(2, "big")
            try:
                sock.send(number + b"\0\0\0\1\0\0\0\0\0\0" + self._question)
            except OSError:
                tally.lost += 1  # refused: nobody listens
                continue
            under_way[number] = now

    def _receive(self, place: int) -> None:
        tally, under_way, sock = self.tally, self._under_way[place], self._sockets[place]
        try:
            while True:
                answer = sock.recv(512)
                sent = under_way.pop(answer[:2], None)
                if sent is None or answer[3] & 15:
                    tally.unexpected += 1
                else:
                    tally.answered += 1
                    tally.longest = max(tally.longest, time.monotonic() - sent)
        except OSError:
            pass

    def _sweep(self, now: float) -> None:
        for under_way in self._under_way:
            for number in [number for number, sent in under_way.items() if now - sent > GIVE_UP]:
                del under_way[number]
                self.tally.lost += 1


class Servers:
    """``lbdns serve`` on one configuration, and those that take its place."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.port = free_port()
        self.control = folder / "control.sock"
        self._config = folder / "lbdns.toml"
        self._report_port = free_port()
        (folder / "bench.zone").write_text(
            "$TTL 60\n@ SOA ns hostmaster 1 60 60 60 60\n@ NS ns\nns A 127.0.0.1\nweb1 A 127.0.0.2\nweb2 A 127.0.0.3\n"
        )
        self.write(0)
        self._all = [self._start("--workers", str(workers))]
        self.await_answer()

    def write(self, ttl: int) -> None:
        """The configuration, each time with another TTL."""
        self._config.write_text(
            f'[server]\nlisten = ["127.0.0.1:{self.port}"]\ncontrol = "control.sock"\nstate_dir = "state"\n'
            f'[collector]\nlisten = ["127.0.0.1:{self._report_port}"]\n[web]\nlisten = "off"\n'
            "[rate_limit]\nresponses_per_second = 0\n"
            '[[zone]]\nname = "bench"\nfile = "bench.zone"\n'
            f'[[pool]]\nname = "web"\nzone = "bench"\nmembers = ["web1", "web2"]\nttl = {ttl}\n'
        )

    def _start(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "lbdns", "serve", "-c", str(self._config), "--log-level", "error", *options]
        return subprocess.Popen(command)

    def await_answer(self) -> None:
        end = time.monotonic() + START
        while time.monotonic() < end:
            if Load(self.port, 1, 0).run().answered:
                return
        raise LbdnsError("the server doesn't answer")

    def reload(self, number: int) -> str:
        self.write(number)
        began = time.monotonic()
        order(self.control, "reload")
        return f"reload in {(time.monotonic() - began) * 1000:.0f} ms"

    def take_over(self, workers: int) -> str:
        began = time.monotonic()
        self._all.append(self._start("--take-over", "--workers", str(workers)))
        status = self._all[-2].wait(START)
        took = time.monotonic() - began
        if status != 0 or self._all[-1].poll() is not None:
            raise LbdnsError(f"the old server ended with status {status}, the new one runs: {self._all[-1].poll()}")
        return f"taken over by {workers} workers in {took * 1000:.0f} ms"

    def kill_worker(self, number: int) -> str:
        """SIGKILL to one worker, each time another one."""
        nursery = _children(self._all[-1].pid)
        workers = sorted(worker for pid in nursery for worker in _children(pid))
        os.kill(workers[number % len(workers)], signal.SIGKILL)
        return f"killed worker {workers[number % len(workers)]}"

    def stop(self) -> None:
        for process in self._all:
            process.terminate()
            process.wait(START)


def _children(pid: int) -> list[int]:
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


@contextmanager
def servers(workers: int) -> Iterator[Servers]:
    with tempfile.TemporaryDirectory() as name:
        running = Servers(Path(name), workers)
        try:
            yield running
        finally:
            running.stop()


Deed = Callable[[Servers], str]


def reload(number: int) -> Deed:
    return lambda running: running.reload(number)


def kill_worker(number: int) -> Deed:
    return lambda running: running.kill_worker(number)


def take_over(workers: int) -> Deed:
    return lambda running: running.take_over(workers)


def measure(queries: int, rate: float, workers: int, deeds: Sequence[Deed]) -> Tally:
    """Send so many queries to a server, or more until the deeds, which are done one after another, are done."""
    with servers(workers) as running, ThreadPoolExecutor(1) as doer:
        load = Load(running.port, queries, rate)
        load.goes_on.set()

        def do_all() -> None:
            try:
                for number, deed in enumerate(deeds, 1):
                    while load.tally.sent < queries * number / (len(deeds) + 1):
                        time.sleep(0.002)
                    load.tally.deeds.append(deed(running))
            finally:
                load.goes_on.clear()

        done = doer.submit(do_all)
        tally = load.run()
        done.result()
        return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=0.0, help="queries/s; 0: as many as are answered")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--reloads", type=int, default=0)
    parser.add_argument("--kills", type=int, default=0, help="workers to kill, one after another")
    parser.add_argument("--take-over", type=int, nargs="?", const=0, metavar="N", help="by a server with N workers")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    deeds = [reload(number) for number in range(1, arguments.reloads + 1)]
    deeds += [kill_worker(number) for number in range(arguments.kills)]
    if arguments.take_over is not None:
        deeds.append(take_over(arguments.take_over or arguments.workers))
    tally = measure(arguments.queries, arguments.rate, arguments.workers, deeds)
    figures = {
        "sent": tally.sent, "answered": tally.answered, "lost": tally.lost, "unexpected": tally.unexpected,
        "longest_ms": round(tally.longest * 1000, 1), "queries_per_s": round(tally.sent / tally.seconds),
    }  # fmt: skip
    print(json.dumps(figures) if arguments.json else "  ".join(f"{name} {value}" for name, value in figures.items()))
    if not arguments.json:
        print("; ".join(tally.deeds))
    return 0 if tally.lost == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
