"""Signals as a file descriptor that is readable once a signal has arrived, so that poll(2) can wait for them."""

from __future__ import annotations

import os
import signal
from typing import Final

STOP: Final = (signal.SIGTERM, signal.SIGINT)
RELOAD: Final = signal.SIGHUP


class SignalPipe:
    """Catches the STOP and RELOAD signals of this process until ``close``. Use it in the main thread only."""

    def __init__(self) -> None:
        self.fd, self._write_end = os.pipe()
        for end in (self.fd, self._write_end):
            os.set_blocking(end, False)
        self._fd_before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        # Python writes to the descriptor only if there is a handler; the caller of ``take`` acts on the signal
        self._before = {number: signal.signal(number, lambda *_: None) for number in (*STOP, RELOAD)}

    def take(self) -> list[int]:
        """Return the numbers of the signals that have arrived since the last call, in order."""
        try:
            return list(os.read(self.fd, 64))
        except BlockingIOError:
            return []

    def close(self) -> None:
        """Restore the handlers that were there before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._fd_before)
        os.close(self.fd)
        os.close(self._write_end)
