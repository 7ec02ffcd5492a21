"""Fixtures for the answering tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.answering.configured import using
from tests.planes import PLANES


@pytest.fixture(params=PLANES)
def both_planes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the test on each plane."""
    with using(request.param):
        yield
