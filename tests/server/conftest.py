"""Fixtures for the server's tests."""

from __future__ import annotations

import logging

import pytest

from lbdns.server import collector_follower


@pytest.fixture
def quick_follower(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Shorten the follower's pauses, and capture its log."""
    monkeypatch.setattr(collector_follower, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(collector_follower, "LONGEST_PAUSE", 0.05)
    caplog.set_level(logging.INFO, "lbdns.follow")
