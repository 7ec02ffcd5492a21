"""Fixtures of the tests of forwarding."""

from __future__ import annotations

import pytest

from lbdns.server.forwarding import upstreams


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time-outs that a test can wait for."""
    monkeypatch.setattr(upstreams, "TRY", 0.25)
    monkeypatch.setattr(upstreams, "TOTAL", 1.2)
