"""Starts, watches and stops child processes, and terminates all child processes if their parent exits."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_PATIENCE: Final = 5.0  # seconds from SIGTERM to SIGKILL


class ChildProcesses:
    """A group of child processes that are stopped together."""

    def __init__(self) -> None:
        self._children: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._tie = _tie_to_parent()

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a child in a separate session. Ctrl-C then interrupts only the parent, which stops the child."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=self._tie,  # noqa: PLW1509  # this process has one thread
        )
        self._children.append((name, process))

    def first_end(self) -> str:
        """Return a message such as ``the DNS server exited with status 1``, or "" if no child has ended."""
        for name, process in self._children:
            if (status := process.poll()) is not None:
                how = f"exited with status {status}" if status >= 0 else f"was killed by {signal.Signals(-status).name}"
                return f"{name} {how}"
        return ""

    def stop(self) -> None:
        """Stop all children at once, and return when all children and their descendants have ended."""
        for _, process in self._children:
            process.terminate()
        for _, process in reversed(self._children):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the rest of its session
            process.wait()
        self._children.clear()

    def __enter__(self) -> ChildProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _tie_to_parent() -> Callable[[], None] | None:
    """Return a function that makes the calling child receive SIGTERM when its parent ends (Linux only)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the request
            os.kill(os.getpid(), signal.SIGTERM)

    return tie
