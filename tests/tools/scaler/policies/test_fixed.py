"""Tests of the policy fixed: the same number at any demand, within the farm's limits."""

from __future__ import annotations

import pytest

from lbdns_tools.scaler.policies.fixed import Fixed
from tests.tools.scaler.policies.farm_views import view


@pytest.mark.parametrize(("servers", "expected"), [(0, 20), (1, 2), (7, 7), (99, 20)])
def test_the_demand_does_not_matter(servers: int, expected: int) -> None:
    for rate in (0.0, 300.0, 1e6):
        assert Fixed(servers).recommend(view(rate, 3, minimum=2)).servers == expected
    assert Fixed(1).recommend(view(0.0, 1)).reason == "The farm always has 1 server."
    assert Fixed().history == 0
