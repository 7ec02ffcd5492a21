"""Tests of signals that stop a program: no signal is missed, whatever the program is doing."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from types import FrameType
from typing import Any

import pytest

from lbdns.process.stop_signals import STOP_SIGNALS, StopSignals, interrupting_stop_signals, stop_signals


def test_nothing_arrived() -> None:
    with stop_signals() as stop:
        assert not stop.is_set()
        assert not stop.wait(0.001)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_is_remembered_and_handlers_are_restored(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_signals() as stop:
        signal.raise_signal(number)
        assert stop.is_set()
        assert stop.wait(60.0)
    assert signal.getsignal(number) is before


def test_a_signal_ends_the_wait() -> None:
    with stop_signals() as stop:
        main = threading.get_ident()
        sender = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGTERM))
        began = time.monotonic()
        sender.start()
        assert stop.wait(60.0)
        assert time.monotonic() - began < 30
        sender.join()


def test_a_signal_at_any_line_of_the_wait_is_noticed() -> None:
    """A handler that takes a lock may deadlock while ``wait`` holds it, so a separate process raises the signals."""
    code = (
        "import sys; from tests.process.test_stop_signals import interrupted_at\n"
        "line = 0\n"
        "while interrupted_at(line): line += 1\n"
        "print(line)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) >= 3


def interrupted_at(line: int) -> bool:
    """Raise a signal after ``line`` lines of ``wait``, and fail if it is missed; return False if fewer lines run."""
    ran = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal ran
        if event == "line":
            if ran == line:
                signal.raise_signal(signal.SIGTERM)
            ran += 1
        return trace if frame.f_code.co_filename.endswith(("stop_signals.py", "threading.py")) else None

    with stop_signals() as stop:
        sys.settrace(trace)
        try:
            StopSignals.wait(stop, 0.01)
        finally:
            sys.settrace(None)
        assert ran <= line or stop.wait(10.0)
    return ran > line


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_stop_signal_can_interrupt(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interrupting_stop_signals():
        signal.raise_signal(number)
    assert signal.getsignal(number) == before
