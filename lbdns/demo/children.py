"""Child processes that never outlive their parent: started, watched, stopped in order."""

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
_PATIENCE: Final = 5.0  # seconds between asking a child to end and ending it


@dataclass(frozen=True, slots=True)
class Child:
    """One child process. ``what`` names it to a person: "the DNS server"."""

    what: str
    process: subprocess.Popen[bytes]

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def ending(self) -> str:
        """How it ended, for a person."""
        status = self.process.returncode
        if status is not None and status < 0:
            return f"{self.what} was ended by {signal.Signals(-status).name}"
        return f"{self.what} ended by itself, with exit status {status}"


class Children:
    """A group of child processes that is stopped together."""

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
        """A child that has ended, if there is one."""
        return next((child for child in self._children if child.ended), None)

    def stop(self) -> None:
        """Ask all to end, side by side; returns when none of them, nor of what they started, is left."""
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
    """Wait for a child that was asked to end; then kill it and whatever is left of its session."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.process.wait(_PATIENCE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.process.pid, signal.SIGKILL)
    child.process.wait()


def _tie_to_parent() -> Callable[[], None] | None:
    """What a child runs before its program: ask the kernel for SIGTERM when its parent is gone (Linux only)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it was gone before we asked
            os.kill(os.getpid(), signal.SIGTERM)

    return tie
