"""A process of the load generator, which receives a share of a run from its parent and returns the measurement.

The parent and the process exchange messages through a socket pair (multiprocessing.Pipe). One end of the socket pair is
the process's standard input. If the parent exits, the socket pair is closed, and the process also exits.
"""

from __future__ import annotations

import gc
import ipaddress
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from random import Random
from typing import Final

from lbdns.zones.names import to_text
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError
from lbdns_tools.load.client_loops import ClientCrowd
from lbdns_tools.load.epoll_loop import READ, EpollLoop
from lbdns_tools.load.http_connection import LoadConnections
from lbdns_tools.load.load_plan import LoadRun
from lbdns_tools.load.process_measurements import ProcessMeasurement
from lbdns_tools.load.stub_resolver import StubResolver, system_address, system_server

PROGRESS_S: Final = 0.25  # between progress messages
_GARBAGE: Final = 100_000  # allocations between garbage collections: hardly any cycles are created here


class LoadProcess:
    """The share of a run that this process executes. If ``sources`` is empty, the kernel selects the source
    addresses."""

    def __init__(self, run: LoadRun, sources: Sequence[str], parent: Connection) -> None:
        self._run, self._parent = run, parent
        self._loop = EpollLoop()
        self._sockets = LoadConnections(self._loop, run.keep_alive, sources, run.max_connections)
        fixed, needs_resolver = _fixed_addresses(run)
        chance = Random(f"queries {run.seed} {run.part} {os.getpid()}")
        self._fixed = fixed
        self._resolver = StubResolver(self._loop, _server(run), chance) if needs_resolver else None
        self._crowd = ClientCrowd(run, self._sockets, self._resolver, fixed)
        self._cpu = [0.0, math.nan]  # seconds of this process at the beginning and at the end of sending
        self._until = math.nan

    def run(self, begin: float) -> ProcessMeasurement:
        """Run from ``begin`` (monotonic time) until all requests have ended or the parent sends a message."""
        loop, crowd = self._loop, self._crowd
        loop.watch(self._parent.fileno(), READ, loop.stop)
        loop.call_at(begin, self._begin_of_sending)
        if math.isfinite(self._run.seconds):
            loop.call_at(begin + self._run.seconds, self._end_of_sending)
        loop.call_at(begin + PROGRESS_S, self._send_progress)
        crowd.start(begin)
        loop.run()
        self._end_of_sending()
        self._sockets.close()
        return ProcessMeasurement(
            crowd.tally,
            crowd.ok_in_window,
            crowd.last_ok,
            crowd.last_end,
            (self._cpu[1] - self._cpu[0]) / max(self._until - begin, 1e-3),
            crowd.lateness.means(),
            dict(self._sockets.local),
            crowd.held_back,
            self._run.max_connections,
            self._owners(),
        )

    def _owners(self) -> dict[str, set[str]]:
        """Return the names that lookups have resolved to each address."""
        owners: dict[str, set[str]] = {}
        for host, address in self._fixed.items():
            if not Endpoint(host, 0).is_address:
                owners.setdefault(address, set()).add(host)
        for address, names in (self._resolver.owners if self._resolver else {}).items():
            owners.setdefault(address, set()).update(map(to_text, names))
        return owners

    def _begin_of_sending(self) -> None:
        self._cpu[0] = time.process_time()

    def _end_of_sending(self) -> None:
        if math.isnan(self._until):
            self._until, self._cpu[1] = self._loop.clock(), time.process_time()

    def _send_progress(self) -> None:
        crowd = self._crowd
        self._parent.send(("progress", (crowd.done, crowd.failed, crowd.under_way)))
        self._loop.call_at(self._loop.clock() + PROGRESS_S, self._send_progress)


def _fixed_addresses(run: LoadRun) -> tuple[dict[str, str], bool]:
    """Return the addresses of the hosts that require no DNS lookup, and whether any host requires one. Raises
    LbdnsError."""
    hosts = {target.host for phase in run.phases for target in phase.mix.targets}
    fixed = {host: str(ipaddress.ip_address(host)) for host in hosts if Endpoint(host, 0).is_address}
    others = hosts - set(fixed)
    if run.resolve.mode == "system":
        return fixed | {host: system_address(host) for host in others}, False
    return fixed, bool(others)


def _server(run: LoadRun) -> Endpoint:
    server = run.resolve.server or system_server()
    return server if server.is_address else Endpoint(system_address(server.host), server.port)


def main() -> int:
    """Run the share received from the parent, and return the exit status: 0 on success, 1 on failure."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C does
    # Connections soon use up the usual limit of 1024 descriptors
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with Connection(os.dup(0)) as parent:
        try:
            run, sources = parent.recv()
            worker = LoadProcess(run, sources, parent)
            gc.collect()
            gc.freeze()
            gc.set_threshold(_GARBAGE)
            parent.send(("ready", None))
            parent.send(("done", worker.run(parent.recv())))
        except LbdnsError as error:
            parent.send(("error", str(error)))
            return 1
        except (EOFError, ConnectionError):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
