"""Being told to end, once and more often."""

from __future__ import annotations

import os
import signal

import pytest

from lbdns_tools.lab.interrupt_once import SIGNALS, ends_once


@pytest.mark.parametrize("number", SIGNALS)
def test_once_is_enough(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    with ends_once():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGINT)  # while everything is put away
        os.kill(os.getpid(), signal.SIGTERM)
    assert capsys.readouterr().err == "already shutting down; this takes a few seconds\n" * 2
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_handlers_are_put_back_after_an_error() -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    with pytest.raises(ValueError, match="ours"), ends_once():
        raise ValueError("ours")
    assert [signal.getsignal(each) for each in SIGNALS] == before
