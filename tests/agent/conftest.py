"""Fixtures for the agent's tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture
def pipe_read_end() -> Iterator[int]:
    """Yield a file descriptor that is never readable."""
    read_end, write_end = os.pipe()
    yield read_end
    os.close(read_end)
    os.close(write_end)
