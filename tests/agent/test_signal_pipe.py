from __future__ import annotations

import os
import select
import signal

from lbdns_agent.agent_loop import RELOAD, SignalPipe


def test_signals_become_readable_and_everything_is_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    signals = SignalPipe()
    try:
        assert signals.take() == []
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), RELOAD)
        assert select.select([signals.fd], [], [], 5.0)[0] == [signals.fd]
        assert signals.take() == [signal.SIGTERM, RELOAD]
        assert signals.take() == []
    finally:
        signals.close()
    assert signal.getsignal(signal.SIGTERM) == before
    assert signal.set_wakeup_fd(-1) == -1
