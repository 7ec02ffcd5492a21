"""One process of the load generator: it reads its assignment from standard input and writes results to standard output.

Input messages are pickled by the parent process; output messages are plain data (msgpack). The process ends when its
standard input ends, so it never outlives its parent.
"""

from __future__ import annotations

import gc
import ipaddress
import math
import os
import pickle
import resource
import signal
import struct
import sys
import time
from dataclasses import dataclass
from random import Random
from typing import Any, BinaryIO, Final

import msgpack

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError
from lbdns_tools.load.client_loops import ClientCrowd, ProcessShare
from lbdns_tools.load.epoll_loop import READ, EpollLoop
from lbdns_tools.load.generator_saturation import ProcessStrain
from lbdns_tools.load.http_connection import LoadConnections
from lbdns_tools.load.load_plan import LoadRun
from lbdns_tools.load.process_measurements import ProcessMeasurement
from lbdns_tools.load.stub_resolver import StubResolver, system_address, system_server

PROGRESS_S: Final = 0.25  # between progress messages
LENGTH: Final = struct.Struct("!I")  # before each message on standard input
_GARBAGE: Final = 100_000  # allocations between garbage collections: hardly any cycles are created here


@dataclass(frozen=True, slots=True)
class LoadAssignment:
    """The task of a process: its share of a run, and its source addresses; without any, the kernel chooses."""

    run: LoadRun
    number: int
    of: int
    sources: tuple[str, ...] = ()


def message_bytes(message: object) -> bytes:
    """Return a message for the standard input of a load process."""
    data = pickle.dumps(message)
    return LENGTH.pack(len(data)) + data


class LoadProcess:
    """Runs one assignment in this process and writes its messages to ``out``."""

    def __init__(self, order: LoadAssignment, out: BinaryIO) -> None:
        self._run, self._out = order.run, out
        self._loop = EpollLoop()
        self._sockets = LoadConnections(self._loop, self._run.keep_alive, order.sources, self._run.max_connections)
        fixed, needs_resolver = _fixed_addresses(self._run)
        chance = Random(f"queries {self._run.seed} {order.number} {os.getpid()}")
        resolver = StubResolver(self._loop, _server(self._run), chance) if needs_resolver else None
        self._crowd = ClientCrowd(
            self._loop, self._run, ProcessShare(order.number, order.of), self._sockets, resolver, fixed
        )
        self._cpu = [0.0, math.nan]  # seconds of this process at the beginning and at the end of sending
        self._until = math.nan

    def run(self, begin: float, orders: BinaryIO) -> None:
        """Run from ``begin`` on the monotonic clock until all is done or standard input is readable."""
        loop = self._loop
        loop.watch(orders.fileno(), READ, loop.stop)
        loop.call_at(begin, self._begin_of_sending)
        if math.isfinite(self._run.seconds):
            loop.call_at(begin + self._run.seconds, self._end_of_sending)
        loop.call_at(begin + PROGRESS_S, self._tell_progress)
        self._crowd.start(begin)
        loop.run()
        self._end_of_sending()
        self._sockets.close()
        self._tell("done", self._measured(begin).state())

    def _begin_of_sending(self) -> None:
        self._cpu[0] = time.process_time()

    def _end_of_sending(self) -> None:
        if math.isnan(self._until):
            self._until, self._cpu[1] = self._loop.clock(), time.process_time()

    def _measured(self, begin: float) -> ProcessMeasurement:
        crowd = self._crowd
        share = (self._cpu[1] - self._cpu[0]) / max(self._until - begin, 1e-3)
        strain = ProcessStrain(
            share, tuple(crowd.lateness.means()), dict(self._sockets.local), crowd.held_back, self._run.max_connections
        )
        return ProcessMeasurement(crowd.tally, crowd.ok_in_window, crowd.last_ok, crowd.last_end, strain)

    def _tell_progress(self) -> None:
        crowd = self._crowd
        self._tell("progress", [crowd.done, crowd.failed, crowd.under_way])
        self._loop.call_at(self._loop.clock() + PROGRESS_S, self._tell_progress)

    def _tell(self, what: str, data: Any) -> None:
        tell(self._out, what, data)


def tell(out: BinaryIO, what: str, data: Any = None) -> None:
    out.write(msgpack.packb([what, data]))
    out.flush()


def _fixed_addresses(run: LoadRun) -> tuple[dict[str, str], bool]:
    """Return hosts with a fixed address, and whether there are others. Raises LbdnsError."""
    hosts = {target.host for phase in run.phases for target in phase.mix.targets}
    fixed = {host: str(ipaddress.ip_address(host)) for host in hosts if Endpoint(host, 0).is_address}
    others = hosts - set(fixed)
    if run.resolve.mode == "system":
        return fixed | {host: system_address(host) for host in others}, False
    return fixed, bool(others)


def _server(run: LoadRun) -> Endpoint:
    server = run.resolve.server or system_server()
    return server if server.is_address else Endpoint(system_address(server.host), server.port)


def _read(orders: BinaryIO) -> Any:
    """Return the next message. Raises EOFError."""
    head = orders.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    return pickle.loads(orders.read(LENGTH.unpack(head)[0]))


def _take_descriptors() -> None:
    """Raise the limit of descriptors to the maximum: connections soon use up the usual 1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> int:
    """Run the assignment from standard input. Return 0 on success, 1 if an error was sent instead of a result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C does
    # Output of libraries must not mix with the messages
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Unbuffered, so that epoll sees all input that is still to be read
    with os.fdopen(0, "rb", buffering=0, closefd=False) as orders:
        try:
            _take_descriptors()
            worker = LoadProcess(_read(orders), out)
            gc.collect()
            gc.freeze()
            gc.set_threshold(_GARBAGE)
            tell(out, "ready")
            worker.run(_read(orders), orders)
        except LbdnsError as error:
            tell(out, "error", str(error))
            return 1
        except (EOFError, BrokenPipeError):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
