"""One process of the load generator: told on standard input what to do and when, it tells on standard output.

What comes in is pickled by the process that started this one; what goes out is plain data (msgpack). The end of
standard input is the end: nobody is left behind whatever becomes of the other one.
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

from lbdns.endpoint import Endpoint
from lbdns.errors import LbdnsError
from lbdns_tools.load.clients import Crowd, Part
from lbdns_tools.load.connection import Sockets
from lbdns_tools.load.loop import READ, Loop
from lbdns_tools.load.measured import Measured
from lbdns_tools.load.plan import Run
from lbdns_tools.load.resolve import Resolver, system_address, system_server
from lbdns_tools.load.saturation import Strain

PROGRESS_S: Final = 0.25  # from one message of progress to the next
LENGTH: Final = struct.Struct("!I")  # before each message on standard input
_GARBAGE: Final = 100_000  # objects made until Python looks for circles: hardly anything here makes any


@dataclass(frozen=True, slots=True)
class Order:
    """What a process has to do: its share of a run, and the source addresses to use, if not the kernel's choice."""

    run: Run
    number: int
    of: int
    sources: tuple[str, ...] = ()


def order_bytes(message: object) -> bytes:
    """A message for standard input."""
    data = pickle.dumps(message)
    return LENGTH.pack(len(data)) + data


class Worker:
    """One run in this process."""

    def __init__(self, order: Order, out: BinaryIO) -> None:
        self._run, self._out = order.run, out
        self._loop = Loop()
        self._sockets = Sockets(self._loop, self._run.keep_alive, order.sources, self._run.max_connections)
        fixed, needs_resolver = _fixed_addresses(self._run)
        chance = Random(f"queries {self._run.seed} {order.number} {os.getpid()}")
        resolver = Resolver(self._loop, _server(self._run), chance) if needs_resolver else None
        self._crowd = Crowd(self._loop, self._run, Part(order.number, order.of), self._sockets, resolver, fixed)
        self._cpu = [0.0, math.nan]  # seconds of this process at the beginning and at the end of sending
        self._until = math.nan

    def run(self, begin: float, orders: BinaryIO) -> None:
        """From ``begin`` on the monotonic clock until all is done, or standard input has something to read."""
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

    def _measured(self, begin: float) -> Measured:
        crowd = self._crowd
        share = (self._cpu[1] - self._cpu[0]) / max(self._until - begin, 1e-3)
        strain = Strain(
            share,
            tuple(crowd.lateness.means()),
            dict(self._sockets.local),
            crowd.held_back,
            self._run.max_connections,
        )
        return Measured(crowd.tally, crowd.ok_in_window, crowd.last_ok, crowd.last_end, strain)

    def _tell_progress(self) -> None:
        crowd = self._crowd
        self._tell("progress", [crowd.done, crowd.failed, crowd.under_way])
        self._loop.call_at(self._loop.clock() + PROGRESS_S, self._tell_progress)

    def _tell(self, what: str, data: Any) -> None:
        tell(self._out, what, data)


def tell(out: BinaryIO, what: str, data: Any = None) -> None:
    out.write(msgpack.packb([what, data]))
    out.flush()


def _fixed_addresses(run: Run) -> tuple[dict[str, str], bool]:
    """Hosts whose address is known for good, and whether there are others. Raises LbdnsError."""
    hosts = {target.host for phase in run.phases for target in phase.mix.targets}
    fixed = {host: str(ipaddress.ip_address(host)) for host in hosts if Endpoint(host, 0).is_address}
    others = hosts - set(fixed)
    if run.resolve.mode == "system":
        return fixed | {host: system_address(host) for host in others}, False
    return fixed, bool(others)


def _server(run: Run) -> Endpoint:
    server = run.resolve.server or system_server()
    return server if server.is_address else Endpoint(system_address(server.host), server.port)


def _read(orders: BinaryIO) -> Any:
    """The next message. Raises EOFError."""
    head = orders.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    return pickle.loads(orders.read(LENGTH.unpack(head)[0]))


def _take_descriptors() -> None:
    """As many as we may have: the usual 1024 are soon used up by connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> int:
    """Exit status 0 when all was done, 1 if not, and why not was told."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started us decides what Ctrl-C means
    # What libraries print must not get between the messages
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Unbuffered: what is still to come has to be seen by epoll
    with os.fdopen(0, "rb", buffering=0, closefd=False) as orders:
        try:
            _take_descriptors()
            worker = Worker(_read(orders), out)
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
