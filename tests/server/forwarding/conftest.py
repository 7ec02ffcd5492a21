"""Fixtures for the tests of forwarding."""

from __future__ import annotations

import pytest

from lbdns.server.forwarding import upstreams


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the timeouts, so that a test can wait for them."""
    monkeypatch.setattr(upstreams, "TRY", 0.25)
    monkeypatch.setattr(upstreams, "TOTAL", 1.2)
