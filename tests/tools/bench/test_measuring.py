from __future__ import annotations

import pytest

from lbdns_tools.bench.measuring import percentile


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 50), (0.501, 51), (0.99, 99), (1.0, 100)])
def test_percentiles_of_one_to_a_hundred(share: float, value: int) -> None:
    assert percentile(range(100, 0, -1), share) == value


def test_no_values_have_no_percentile() -> None:
    assert percentile([], 0.5) == 0.0
