"""Programs run by tests: started, waited for, asked to end, and never left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

PATIENCE: Final = 30.0  # seconds; a loaded test machine may be slow, but a test must not hang
_STEP: Final = 0.02  # seconds between looks at a condition


def eventually(condition: Callable[[], object], what: str, seconds: float = PATIENCE, step: float = _STEP) -> float:
    """Wait until ``condition`` is true; how many seconds that took. Fails the test when it doesn't come true."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(step)
    return time.monotonic() - began


class Program:
    """One running program, with what it printed."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.command = tuple(command)
        # Closed by close(): they live as long as the program
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._errors,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return _all_of(self._output.fileno())

    @property
    def errors(self) -> str:
        return _all_of(self._errors.fileno())

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait until it ends; its exit status."""
        return self.process.wait(seconds)

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = PATIENCE) -> int:
        """Send a signal and wait; its exit status."""
        if self.running:
            self.process.send_signal(number)
        return self.wait(seconds)

    def until(self, condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> float:
        """As ``eventually``, but fails at once, with what it said, when the program ends before."""

        def look() -> object:
            if not self.running:
                raise AssertionError(f"{' '.join(self.command)} ended before: {what}\n{self.errors}")
            return condition()

        try:
            return eventually(look, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.errors}") from None

    def close(self) -> None:
        """End it and everything in its session, whatever state it is in."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self._output.close()
        self._errors.close()


def _all_of(descriptor: int) -> str:
    return os.pread(descriptor, 2**24, 0).decode("utf-8", "replace")


@contextlib.contextmanager
def running(*command: str, env: Mapping[str, str] | None = None, inside: Sequence[str] = ()) -> Iterator[Program]:
    """A program for the length of a with block. ``inside`` is put before it, such as ``ip netns exec NAME``."""
    program = Program((*inside, *command), env)
    try:
        yield program
    finally:
        program.close()


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module with this Python."""
    return sys.executable, "-m", module, *arguments


def descendants(pid: int) -> set[int]:
    """The processes that ``pid`` started, and those they started."""
    found: set[int] = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, path.read_text().split()):
                found |= {child} | descendants(child)
    return found


def alive(pids: set[int]) -> set[int]:
    """Those of ``pids`` that still run (a zombie does not)."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.add(pid)
    return found
