"""Runs a program and returns what it prints, within limits on time and size and without blocking the agent."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Final

from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.non_blocking_sensors import ReadingSteps
from lbdns_agent.read_to_end import read_to_end
from lbdns_agent.sources.metric_definition import CommandSource
from lbdns_agent.webserver.status_page import TIMEOUT

LARGEST: Final = 1024 * 1024  # bytes of output
EXIT_TIME: Final = 0.1  # seconds between closing its output and exiting that a program may take
QUOTED: Final = 200  # characters of a program's error message


class CommandOutput:
    """The output of one program, which is started anew for every reading."""

    def __init__(self, source: CommandSource) -> None:
        self._source = source
        self._killed: list[subprocess.Popen[bytes]] = []  # programs that may not have exited yet

    def read(self) -> ReadingSteps[bytes]:
        """Return what the program prints. Raises MissingValueError.

        If the time limit is exceeded, the program and all processes in its process group are killed.
        """
        self._killed = [process for process in self._killed if process.poll() is None]
        process = self._start()
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for pipe in (process.stdout, process.stderr):
                os.set_blocking(pipe.fileno(), False)
            output = yield from read_to_end(process.stdout.fileno(), LARGEST)
            errors = yield from read_to_end(process.stderr.fileno(), LARGEST)
            status = process.wait(EXIT_TIME)
        except TimeoutError:
            raise MissingValueError(f"{self._source}: did not finish within {TIMEOUT:g} s") from None
        except subprocess.TimeoutExpired:
            raise MissingValueError(f"{self._source}: closed its output, but did not exit") from None
        except OverflowError:
            raise MissingValueError(f"{self._source}: printed more than {LARGEST // 1024} KiB") from None
        finally:
            self._end(process)
        if status:
            raise MissingValueError(f"{self._source}: {_failure(status, errors)}")
        return output

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self._source.words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise MissingValueError(f"{self._source}: can't be started: {error.strerror}") from None

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        if process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            if process.poll() is None:
                self._killed.append(process)


def _failure(status: int, errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    text = f": {lines[-1][:QUOTED]}" if lines else ""
    return f"killed by signal {-status}{text}" if status < 0 else f"exit status {status}{text}"
