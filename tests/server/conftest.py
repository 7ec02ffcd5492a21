"""Fixtures of the tests of the server."""

from __future__ import annotations

import logging

import pytest

from lbdns.server import follow


@pytest.fixture
def quick_follower(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Pauses that a test can wait for, and what a follower logs."""
    monkeypatch.setattr(follow, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(follow, "LONGEST_PAUSE", 0.05)
    caplog.set_level(logging.INFO, "lbdns.follow")
