"""Start, watch and stop child processes that never outlive their parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_PATIENCE: Final = 5.0  # seconds from SIGTERM to SIGKILL


@dataclass(frozen=True, slots=True)
class Child:
    """One child process. ``what`` names it in messages, such as "the DNS server"."""

    what: str
    process: subprocess.Popen[bytes]

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def ending(self) -> str:
        """Return a phrase that says how the process ended."""
        status = self.process.returncode
        if status is not None and status < 0:
            return f"{self.what} was killed by {signal.Signals(-status).name}"
        return f"{self.what} exited with status {status}"


class Children:
    """A group of child processes that are stopped together."""

    def __init__(self) -> None:
        self._children: list[Child] = []
        self._tie = _tie_to_parent()

    def start(self, what: str, command: Sequence[str]) -> None:
        """Start a child in a session of its own, so that Ctrl-C reaches it only through its parent."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=self._tie,  # noqa: PLW1509  # this process has one thread
        )
        self._children.append(Child(what, process))

    def first_ended(self) -> Child | None:
        """Return a child that has ended, if any."""
        return next((child for child in self._children if child.ended), None)

    def stop(self) -> None:
        """Stop all children at once; return when they and their own children are gone."""
        for child in self._children:
            if not child.ended:
                child.process.terminate()
        while self._children:
            _end(self._children.pop())

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _end(child: Child) -> None:
    """Wait for a child that got SIGTERM; then kill it and the rest of its session."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.process.wait(_PATIENCE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.process.pid, signal.SIGKILL)
    child.process.wait()


def _tie_to_parent() -> Callable[[], None] | None:
    """Run in the child before its program: request SIGTERM from the kernel when the parent dies (Linux only)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the request
            os.kill(os.getpid(), signal.SIGTERM)

    return tie
