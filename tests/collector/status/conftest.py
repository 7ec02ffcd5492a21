"""The farm whose status the tests document."""

from __future__ import annotations

import pytest

from lbdns.model.farm import Farm
from tests.collector.collector_fixtures import make_farm


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    return make_farm(tmp_path_factory.mktemp("farm"))
