"""The two planes, for tests that compare them."""

from __future__ import annotations

from typing import Final

import pytest

from lbdns.answering.plane import PYTHON_PLANE, NativePlane
from tests.needs import needs

PLANES: Final = [
    pytest.param(PYTHON_PLANE, id="python"),
    pytest.param(NativePlane(), id="native", marks=needs(native=True)),
]
