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
LONGEST: Final = 600.0  # seconds; then the load ends by itself
#: Queries in flight from each of the 32 ports. At 2,000 queries/s, a query is lost before the client pauses.
WINDOW: Final = 1280
PORT: Final = 53
_LOOK: Final = 0.01  # seconds between two looks for the first answer


class LoadFromMachine:
    """Runs a program that sends queries from a machine's network during a ``with`` statement, and then sets
    ``tally``.

    The statement's body begins after the first answer.
    """

    def __init__(self, machine: Machine, server: str, name: str, rate: float) -> None:
        self.tally = QueryTally()
        program = [sys.executable, "-m", "lbdns_machines.query_load", server, name, str(rate)]
        self._command = machine.inside(["env", f"PYTHONPATH={ROOT / 'packaging'}", *program])

    def __enter__(self) -> LoadFromMachine:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        assert self._process.stdout, "a pipe"
        try:
            self._process.stdout.readline()
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if error[0]:
            self._kill()
            return
        try:
            self._process.terminate()
            output, _ = self._process.communicate(timeout=GIVE_UP + 60)
            self.tally = QueryTally(**json.loads(output))
        except (subprocess.TimeoutExpired, ValueError):
            raise MachineError("the sender of queries ended without a tally") from None
        finally:
            self._kill()

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout, "a pipe"
        self._process.stdout.close()


def describe_tally(tally: QueryTally) -> str:
    """Return a sentence about a load of which nothing was lost. Raises MachineError unless each query was answered."""
    if tally.lost or tally.unexpected or tally.answered != tally.sent or not tally.sent:
        raise MachineError(
            f"of {tally.sent} queries, {tally.answered} were answered, {tally.lost} lost, and {tally.unexpected} "
            f"answered unexpectedly; the client itself dropped {tally.overflows} answers; longest answer "
            f"{tally.longest:.2f} s"
        )
    return f"{tally.sent} queries in {tally.seconds:.0f} s, 0 lost; longest answer {tally.longest:.2f} s"


def main(arguments: list[str]) -> None:
    """Send queries until SIGTERM, or for ``LONGEST`` seconds; print a line after the first answer."""
    server, name, rate = arguments
    query = query_wire(name, edns=False)
    load = WindowedLoad(PORT, 0, float(rate), window=WINDOW, give_up=GIVE_UP, query=query, host=server)
    load.goes_on.set()
    ended = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        load.goes_on.clear()

    def announce() -> None:
        """Print a line after the first answer. If there is none, the tally contains lost queries."""
        for _ in range(round(GIVE_UP / _LOOK)):
            if load.tally.answered or ended.wait(_LOOK):
                break
        print("sending", flush=True)

    signal.signal(signal.SIGTERM, stop)
    timer = threading.Timer(LONGEST, load.goes_on.clear)
    timer.daemon = True
    timer.start()
    announcer = threading.Thread(target=announce)
    announcer.start()
    tally: dict[str, Any] = asdict(load.run())
    timer.cancel()
    ended.set()
    announcer.join()
    print(json.dumps(tally), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
