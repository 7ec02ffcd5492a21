"""``python -m lbdns_machines.query_load ADDRESS NAME RATE`` sends queries until SIGTERM, and prints a tally as JSON."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from dataclasses import asdict
from types import FrameType
from typing import Any, Final

from lbdns_machines.machine import Machine, MachineError
from lbdns_packaging.source_tree import ROOT
from lbdns_tools.bench.dns.latency_prober import query_wire
from lbdns_tools.bench.dns.windowed_load import QueryTally, WindowedLoad

GIVE_UP: Final = 20.0  # seconds without an answer after which a query is lost; machines share a busy host's processors
LONGEST: Final = 300.0  # seconds; then the load ends by itself


class LoadFromMachine:
    """Runs a program that sends queries from a machine's network during a ``with`` statement, and then sets
    ``tally``."""

    def __init__(self, machine: Machine, server: str, name: str, rate: float) -> None:
        self.tally = QueryTally()
        program = [sys.executable, "-m", "lbdns_machines.query_load", server, name, str(rate)]
        self._command = machine.inside(["env", f"PYTHONPATH={ROOT / 'packaging'}", *program])

    def __enter__(self) -> LoadFromMachine:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        assert self._process.stdout, "a pipe"
        self._process.stdout.readline()  # the first query is about to be sent
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        try:
            output, _ = self._process.communicate(timeout=GIVE_UP + 60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise MachineError("the queries' sender did not end") from None
        if not error[0]:
            self.tally = QueryTally(**json.loads(output))


def main(arguments: list[str]) -> None:
    """Send queries until SIGTERM, or for ``LONGEST`` seconds."""
    server, name, rate = arguments
    load = WindowedLoad(53, 0, float(rate), give_up=GIVE_UP, query=query_wire(name, edns=False), host=server)
    load.goes_on.set()

    def stop(number: int, frame: FrameType | None) -> None:
        load.goes_on.clear()

    signal.signal(signal.SIGTERM, stop)
    timer = threading.Timer(LONGEST, load.goes_on.clear)
    timer.daemon = True
    timer.start()
    print("sending", flush=True)
    tally: dict[str, Any] = asdict(load.run())
    print(json.dumps(tally), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
