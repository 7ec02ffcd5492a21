"""Waits for stop signals in programs that have no event loop."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from typing import Final

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Records whether a stop signal has arrived since this object was created. Use this class only in the main thread.

    A signal handler that sets a ``threading.Event`` can deadlock, because ``wait`` may hold the event's lock.
    Therefore, the interpreter writes each signal to a pipe, which needs no lock.
    """

    def __init__(self, read_end: int) -> None:
        self._read_end = read_end
        self._arrived = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds, and return whether a signal has arrived since this object was created."""
        if not self._arrived:
            self._arrived = bool(select.select([self._read_end], (), (), timeout)[0])
        return self._arrived

    def is_set(self) -> bool:
        """Return, without waiting, whether a signal has arrived."""
        return self.wait(0.0)


@contextlib.contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Record stop signals, so that they do not interrupt the program; restore the old handlers on exit."""
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    wakeup_before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    # The interpreter writes to the pipe only for signals that have a Python handler
    before = {number: signal.signal(number, lambda *_: None) for number in STOP_SIGNALS}
    try:
        yield StopSignals(read_end)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup_before)
        os.close(read_end)
        os.close(write_end)


@contextlib.contextmanager
def interrupting_stop_signals() -> Iterator[None]:
    """Make every stop signal raise KeyboardInterrupt, so that the program removes its temporary files."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
