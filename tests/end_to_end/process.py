"""Starts programs for tests, waits for them and stops them, and never leaves any of them running."""

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

PATIENCE: Final = 120.0  # seconds; a loaded test machine may be slow, but a test must not hang
_STEP: Final = 0.02  # seconds between looks at a condition


def eventually(condition: Callable[[], object], what: str, seconds: float = PATIENCE, step: float = _STEP) -> float:
    """Wait until ``condition`` is true, and return the elapsed seconds. Raises AssertionError on timeout."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(step)
    return time.monotonic() - began


class Program:
    """A running program with its output."""

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
        """Wait until the program ends, and return its exit status."""
        return self.process.wait(seconds)

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = PATIENCE) -> int:
        """Send a signal, wait until the program ends, and return its exit status."""
        if self.running:
            self.process.send_signal(number)
        return self.wait(seconds)

    def until(self, condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> float:
        """Wait like ``eventually``, but fail immediately, with the program's output, if the program ends first."""

        def look() -> object:
            if not self.running:
                raise AssertionError(f"{' '.join(self.command)} ended before: {what}\n{self.errors}")
            return condition()

        try:
            return eventually(look, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.errors}") from None

    def close(self) -> None:
        """Kill the program and all processes in its session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self._output.close()
        self._errors.close()


def _all_of(descriptor: int) -> str:
    return os.pread(descriptor, 2**24, 0).decode("utf-8", "replace")


@contextlib.contextmanager
def running(*command: str, env: Mapping[str, str] | None = None, inside: Sequence[str] = ()) -> Iterator[Program]:
    """Run a program within a with block. ``inside`` is a command prefix such as ``ip netns exec NAME``."""
    program = Program((*inside, *command), env)
    try:
        yield program
    except BaseException as error:
        error.add_note(f"{' '.join(program.command)} wrote to standard error:\n{program.errors[-4000:]}")
        raise
    finally:
        program.close()


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module with the current Python interpreter."""
    return sys.executable, "-m", module, *arguments


def descendants(pid: int) -> set[int]:
    """Return the process ids of all descendants of ``pid``."""
    found: set[int] = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, path.read_text().split()):
                found |= {child} | descendants(child)
    return found


def alive(pids: set[int]) -> set[int]:
    """Return the processes among ``pids`` that are still running; zombies do not count."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.add(pid)
    return found
