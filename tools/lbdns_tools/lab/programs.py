"""Long-running programs of a lab: started, waited for, watched, and ended, with what they said in a file each."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from lbdns.errors import LbdnsError

READY_S: Final = 30.0  # until a program is of use: an interpreter that starts on a tenth of a processor takes long
END_S: Final = 10.0  # from SIGTERM to SIGKILL
_STEP_S: Final = 0.02  # between two looks


class Running:
    """One program that was started, the leader of its own session. ``log`` is what it and its children said."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        """Raises LbdnsError if it can't be started."""
        self.name = name
        self.log = log
        self._asked_to_end = False
        with log.open("ab") as output:
            self._began_at = output.tell()
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(env or {})},
                    start_new_session=True,  # Ctrl-C is for whoever runs the lab, which ends the programs in turn
                )
            except OSError as error:
                raise LbdnsError(f"{name} can't be started: {command[0]}: {error.strerror}") from None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        if self._process.returncode is not None:
            return False
        # The process stays a zombie until finish(): its number must not be given to another group of processes before
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def stop(self, signal: signal.Signals = signal.SIGTERM, seconds: float = END_S) -> None:
        """End it with a signal, and if it doesn't end, or leaves children of its session, them with SIGKILL."""
        self.ask_to_end(signal)
        self.await_end(time.monotonic() + seconds)

    def ask_to_end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send it a signal; nobody will wonder that it has ended."""
        self._asked_to_end = True
        if self.running:
            self._process.send_signal(number)

    def await_end(self, until: float) -> None:
        """Wait for its end to a moment of the monotonic clock; then it is killed."""
        while self.running and time.monotonic() < until:
            time.sleep(_STEP_S)
        self._finish()

    def trouble(self) -> str | None:
        """What is wrong with it, a sentence: that it has ended and nobody asked it to. None if nothing."""
        if self._asked_to_end or self.running:
            return None
        status = self._finish()
        how = f"by signal {-status}" if status < 0 else f"with exit status {status}"
        return f"{self.name} ended {how}: {self.last_line()}"

    def last_line(self) -> str:
        """The last thing it said since it was started."""
        with self.log.open("rb") as said:
            said.seek(self._began_at)
            lines = said.read().decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), f"it said nothing, see {self.log}")

    def _finish(self) -> int:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        return self._process.wait()


class Programs:
    """The programs of a lab. As a context manager it ends them all, those started last first."""

    def __init__(self, folder: Path) -> None:
        """``folder``, which must be there, gets NAME.log of each program."""
        self._folder = folder
        self._started: list[Running] = []

    def start(
        self,
        name: str,
        command: Sequence[str],
        ready: Callable[[], bool] | None = None,
        seconds: float = READY_S,
        env: Mapping[str, str] | None = None,
    ) -> Running:
        """Start a program and wait until ``ready`` says so. Raises LbdnsError, and nothing of it is left then."""
        program = Running(name, command, self._folder / f"{name}.log", env)
        self._started.append(program)
        try:
            self._await(program, ready, seconds)
        except BaseException:
            program.stop(signal.SIGKILL)
            self._started.remove(program)
            raise
        return program

    def check(self) -> None:
        """Raises LbdnsError if one has ended that nobody asked to."""
        troubles = [trouble for program in self._started if (trouble := program.trouble())]
        if troubles:
            raise LbdnsError("\n".join(troubles))

    def close(self) -> None:
        """End all that run: asked one after the other, waited for together."""
        until = time.monotonic() + END_S
        programs = self._started[::-1]
        self._started.clear()
        try:
            for program in programs:
                program.ask_to_end()
            for program in programs:
                program.await_end(until)
        finally:
            for program in programs:  # waiting was broken off by Ctrl-C
                program.await_end(time.monotonic())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _await(self, program: Running, ready: Callable[[], bool] | None, seconds: float) -> None:
        until = time.monotonic() + seconds
        while ready is not None and not ready():
            if trouble := program.trouble():
                raise LbdnsError(trouble)
            if time.monotonic() > until:
                raise LbdnsError(f"{program.name} was not ready within {seconds:g} s: {program.last_line()}")
            time.sleep(_STEP_S)
