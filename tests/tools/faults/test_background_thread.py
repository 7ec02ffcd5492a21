"""Tests of a thread that runs for the duration of a with statement."""

from __future__ import annotations

import threading

import pytest

from lbdns_tools.faults.background_thread import background_thread


@pytest.mark.parametrize("error", [None, KeyError("within")])
def test_the_thread_has_ended_after_the_with_statement(error: Exception | None) -> None:
    began, ended = threading.Event(), []

    def run(over: threading.Event) -> None:
        began.set()
        ended.append(over.wait(30))

    def use() -> None:
        with background_thread("ring-bearer", run):
            assert began.wait(30)
            assert "ring-bearer" in {thread.name for thread in threading.enumerate()}
            if error:
                raise error

    if error:
        with pytest.raises(KeyError):
            use()
    else:
        use()
    assert ended == [True]
