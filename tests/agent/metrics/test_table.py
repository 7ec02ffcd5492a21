"""The table of metrics against what the server knows of metrics, and against the page that explains them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.metrics import CATALOGUE
from lbdns_agent.metrics import METRICS

DOCS = Path(__file__).parents[3] / "docs" / "agent.md"


def test_every_metric_of_the_catalogue_is_measured_in_its_unit() -> None:
    assert {name: metric.unit for name, metric in METRICS.items()} == {
        name: metric.unit for name, metric in CATALOGUE.items()
    }


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_a_row_in_the_docs(name: str) -> None:
    assert f"| `{name}` |" in DOCS.read_text("utf-8")
