"""Tests of the main process's view of the fork servers: whose end it reports, and when."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import NoReturn

import pytest

from lbdns.server.workers.fork_server_pair import ForkServerPair


def not_a_child(*_: int) -> NoReturn:
    raise ChildProcessError


@pytest.fixture
def pair() -> ForkServerPair:
    return ForkServerPair((), lambda *_: None, lambda _: None)


def test_the_child_of_a_killed_fork_server_is_reaped_once_it_is_adopted(
    pair: ForkServerPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine may end the fork server seconds after it was killed."""
    statuses: list[int] = []
    pair.reap_later(os.getpid(), statuses.append)
    monkeypatch.setattr(os, "waitpid", not_a_child)
    pair.beat()
    assert statuses == []
    monkeypatch.setattr(os, "waitpid", lambda pid, _: (pid, int(signal.SIGKILL)))
    pair.beat()
    pair.beat()
    assert statuses == [-signal.SIGKILL]


def test_what_a_fork_server_has_reaped_is_forgotten(pair: ForkServerPair, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    statuses: list[int] = []
    pair.reap_later(process.pid, statuses.append)
    pair.beat()
    monkeypatch.setattr(os, "waitpid", lambda pid, _: (pid, 0))
    pair.beat()
    assert statuses == []
