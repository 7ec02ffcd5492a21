"""Faults that affect the server's log: the process that reads the log stops reading, or exits."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
import time
from pathlib import Path
from typing import Final

from lbdns_tools.bench.dns.benchmark_farm import MEMBERS
from lbdns_tools.faults.fault import Fault, Limits
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import FarmPlan

PIPE_BYTES: Final = 4096  # the smallest pipe: it is full after some thirty lines
LINES: Final = 400  # debug or event lines that are provoked: more than fill the pipe


class LogReader:
    """Reads the server's standard error, which is a named pipe.

    The pipe is read only when ``read`` is called. After a call of ``drain``, it is read continuously.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log.fifo"
        os.mkfifo(self.path)
        self.text = ""
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._over = threading.Event()

    def read(self) -> None:
        """Read all data that the pipe contains."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._descriptor, 65536):
                self.text += data.decode(errors="replace")

    def drain(self) -> None:
        """Start a thread that reads all further data from the pipe."""
        threading.Thread(target=self._drain, name="log-reader", daemon=True).start()

    def _drain(self) -> None:
        while not self._over.wait(0.05):
            self.read()

    def close(self) -> None:
        self._over.set()
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def log_to_a_pipe(bed: FaultBed) -> LogReader:
    """Restart the server with a pipe as its standard error, and read the pipe until the fault begins."""
    farm, reader = bed.farm, LogReader(bed.folder)
    bed.resources.callback(reader.close)
    farm.server.stop()
    farm.prefix = ("sh", "-c", 'exec "$@" 2> "$0"', str(reader.path))
    farm.start_server()
    bed.awaits(bed.all_usable, "all members are usable after the restart", 15)
    bed.awaits(bed.answers, "queries are answered after the restart", 15)
    reader.read()
    return reader


def provoke_lines(bed: FaultBed, seconds: float) -> None:
    """Change weights repeatedly for at most ``seconds``; the server logs a line for each change."""
    end, number = time.monotonic() + seconds, 0
    while number < LINES and time.monotonic() < end:
        for member in MEMBERS:
            bed.farm.control("weight", member=member, factor=0.5 + number / 1000, reason="x" * 200)
            number += 1


def log_stalls(bed: FaultBed) -> None:
    reader = log_to_a_pipe(bed)
    bed.begin()
    provoke_lines(bed, 8.0)
    bed.farm.control("reload")
    bed.expect(bed.is_healthy(), "/healthz does not respond with 200 while the log is stalled")
    bed.expect(bed.all_usable(), "not all members are usable while the log is stalled")
    bed.ease()
    reader.drain()
    told = re.compile(r"reload: |lines? (was|were) lost")
    bed.recovers(
        lambda: told.search(reader.text), "the log contains a line about the reload, or the number of lost lines", 8
    )
    bed.recovers(bed.is_healthy, "/healthz responds with 200")


def log_closes(bed: FaultBed) -> None:
    reader = log_to_a_pipe(bed)
    bed.begin()
    reader.close()
    provoke_lines(bed, 3.0)
    bed.farm.control("reload")
    bed.recovers(bed.is_healthy, "/healthz responds with 200")
    bed.recovers(bed.all_usable, "all members are usable")


_HOLDS: Final = "DNS, reports, the control socket and /healthz keep working"
FAULTS: Final = (
    Fault("log.stalled", "nothing reads standard error, so the pipe (4 kB) fills up; the server has 2 workers",
          f"{_HOLDS}; delayed log lines arrive, or the log states the number of lost lines",
          log_stalls, Limits(), quick=True),
    Fault("log.stalled-alone", "nothing reads standard error, so the pipe (4 kB) fills up; the server has one worker",
          f"{_HOLDS}; delayed log lines arrive, or the log states the number of lost lines",
          log_stalls, Limits(),
          FarmPlan(workers=1)),
    Fault("log.closed", "the reader of standard error exits; the server has 2 workers", _HOLDS, log_closes, Limits()),
    Fault("log.closed-alone", "the reader of standard error exits; the server has one worker", _HOLDS, log_closes,
          Limits(), FarmPlan(workers=1)),
)  # fmt: skip
