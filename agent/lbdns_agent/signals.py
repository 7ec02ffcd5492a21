"""Signals as something to wait for: a file descriptor that is readable when one has come."""

from __future__ import annotations

import os
import signal
from typing import Final

STOP: Final = (signal.SIGTERM, signal.SIGINT)
RELOAD: Final = signal.SIGHUP


class Signals:
    """STOP and RELOAD signals of this process, from its making to ``close``. For the main thread only."""

    def __init__(self) -> None:
        self.fd, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._fd_before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        # A handler must be there for the descriptor to be written; what it does is done by who waits
        self._before = {number: signal.signal(number, lambda *_: None) for number in (*STOP, RELOAD)}

    def take(self) -> list[int]:
        """The numbers of the signals that have come, in order."""
        try:
            return list(os.read(self.fd, 64))
        except BlockingIOError:
            return []

    def close(self) -> None:
        """Put everything back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._fd_before)
        os.close(self.fd)
        os.close(self._write_end)
