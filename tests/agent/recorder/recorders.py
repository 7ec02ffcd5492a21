"""Runs recorders: one round after the other on recorded /proc/diskstats files, or as a process."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from lbdns_agent.recorder import record_command
from tests.agent.fixtures import FIXTURES

DISKSTATS = FIXTURES / "diskstats"
#: The local times of the two rows of 2014
TIMES_2014 = (datetime(2014, 12, 14, 14, 27, 7, 878920), datetime(2014, 12, 14, 14, 27, 8, 881174))


def diskstats(name: str) -> bytes:
    """Return a recorded /proc/diskstats file."""
    return (DISKSTATS / name).read_bytes()


def record_rounds(folder: Path, names: Sequence[str], times: Sequence[float], *arguments: str) -> Path:
    """Run ``record --once`` for each of the recorded files at each of the ``times``, and return the directory."""
    proc, out = folder / "proc", folder / "out"
    proc.mkdir(exist_ok=True)
    parser = record_command.build_parser()
    words = ["--once", "--out", str(out), *arguments]
    for name, now in zip(names, times):
        (proc / "diskstats").write_bytes(diskstats(name))
        options = record_command.read_options(parser, parser.parse_args(words))
        assert record_command.run(options, str(proc), lambda now=now: now) == 0  # type: ignore[misc]
    return out


class RunningRecorder:
    """A recorder process that writes its log to a file. ``wrapper`` is a command that runs the recorder."""

    def __init__(self, log: Path, *arguments: str, wrapper: Sequence[str] = ()) -> None:
        self._log = log
        command = [*wrapper, sys.executable, "-m", "lbdns_agent", "record", *arguments]
        with log.open("w") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def lines(self, text: str) -> list[str]:
        """Return the log lines that contain ``text``."""
        return [line for line in self.log.splitlines() if text in line]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to the recorder, and return its exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


@contextlib.contextmanager
def recorder(folder: Path, *arguments: str, wrapper: Sequence[str] = ()) -> Iterator[RunningRecorder]:
    """Run a recorder; at the end, check that it has not logged a traceback."""
    running = RunningRecorder(folder / "recorder.log", *arguments, wrapper=wrapper)
    try:
        yield running
        assert "Traceback" not in running.log, running.log
    finally:
        running.process.kill()
        running.process.wait()


def assert_whole(text: str) -> list[str]:
    """Check that a file has one header, and that every row is whole; return the rows."""
    assert text.endswith("\n")
    header, *rows = text.splitlines()
    assert header.startswith(("time,", "datetime,"))
    assert [row for row in rows if row.count(",") != header.count(",") or not row.startswith("2")] == []
    return rows
