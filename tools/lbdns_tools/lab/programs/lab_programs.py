"""Starts and stops a lab's long-running programs, each with a log file, and detects unexpected exits."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from lbdns_shared.errors import LbdnsError

READY_S: Final = 30.0  # s until a program must be ready; an interpreter starts slowly on a tenth of a core
END_S: Final = 10.0  # s from SIGTERM to SIGKILL
_STEP_S: Final = 0.02  # polling interval


class LabProgram:
    """A program that runs in a separate session. ``log`` contains the output of the program and its children."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        """Start the program. Raises LbdnsError if the program cannot be started."""
        self.name = name
        self.log = log
        self._stopping = False
        with log.open("ab") as output:
            self._began_at = output.tell()
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(env or {})},
                    start_new_session=True,  # so that Ctrl-C reaches only this process, which then stops the programs
                )
            except OSError as error:
                raise LbdnsError(f"cannot start {name}: {command[0]}: {error.strerror}") from None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        if self._process.returncode is not None:
            return False
        # WNOWAIT leaves a zombie process until _finish(), so that no other process group can receive its ID before then
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def stop(self, signal: signal.Signals = signal.SIGTERM, seconds: float = END_S) -> None:
        """Send a signal, wait up to ``seconds`` for the program to exit, and then kill any remaining processes."""
        self.begin_stop(signal)
        self.await_end(time.monotonic() + seconds)

    def begin_stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal that asks the program to exit. The caller must then call ``await_end``."""
        self._stopping = True
        if self.running:
            self._process.send_signal(number)

    def await_end(self, until: float) -> None:
        """Wait for the program to exit, at most until the monotonic time ``until``, and then kill any remaining
        processes."""
        while self.running and time.monotonic() < until:
            time.sleep(_STEP_S)
        self._finish()

    def trouble(self) -> str | None:
        """Return an error message if the program has exited unexpectedly, or None otherwise."""
        if self._stopping or self.running:
            return None
        status = self._finish()
        how = f"after signal {-status}" if status < 0 else f"with exit status {status}"
        return f"{self.name} exited unexpectedly {how}: {self.last_line()}"

    def last_line(self) -> str:
        """Return the last non-empty line in the log since the start of the program."""
        with self.log.open("rb") as output:
            output.seek(self._began_at)
            lines = output.read().decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), f"no output in {self.log}")

    def _finish(self) -> int:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        return self._process.wait()


class LabPrograms:
    """A context manager for a lab's programs. Leaving the context stops all programs, beginning with the one started
    last."""

    def __init__(self, folder: Path) -> None:
        """Each program logs to NAME.log in the directory ``folder``, which must exist."""
        self._folder = folder
        self._started: list[LabProgram] = []

    def start(
        self,
        name: str,
        command: Sequence[str],
        ready: Callable[[], bool] | None = None,
        seconds: float = READY_S,
        env: Mapping[str, str] | None = None,
    ) -> LabProgram:
        """Start a program and wait until ``ready`` returns True. On failure, kill the program and raise LbdnsError."""
        program = LabProgram(name, command, self._folder / f"{name}.log", env)
        self._started.append(program)
        try:
            self._await(program, ready, seconds)
        except BaseException:
            program.stop(signal.SIGKILL)
            self._started.remove(program)
            raise
        return program

    def check(self) -> None:
        """Raise LbdnsError if any program has exited unexpectedly."""
        troubles = [trouble for program in self._started if (trouble := program.trouble())]
        if troubles:
            raise LbdnsError("\n".join(troubles))

    def close(self) -> None:
        """Stop all programs. The method signals all programs before waiting for any of them to exit."""
        until = time.monotonic() + END_S
        programs = self._started[::-1]
        self._started.clear()
        try:
            for program in programs:
                program.begin_stop()
            for program in programs:
                program.await_end(until)
        finally:
            for program in programs:  # in case Ctrl-C interrupted the wait
                program.await_end(time.monotonic())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _await(self, program: LabProgram, ready: Callable[[], bool] | None, seconds: float) -> None:
        until = time.monotonic() + seconds
        while ready is not None and not ready():
            if trouble := program.trouble():
                raise LbdnsError(trouble)
            if time.monotonic() > until:
                raise LbdnsError(f"{program.name} was not ready after {seconds:g} s: {program.last_line()}")
            time.sleep(_STEP_S)
