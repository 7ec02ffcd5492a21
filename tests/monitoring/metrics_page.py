"""Parses /metrics pages, and looks up whether the manual documents a metric."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

#: Sample name -> label values -> value
MetricsPage = dict[str, dict[tuple[str, ...], float]]
ROOT = Path(__file__).parents[2]


def page_of(text: str | bytes) -> MetricsPage:
    """Parse a page with prometheus_client's parser."""
    found: MetricsPage = {}
    for family in text_string_to_metric_families(text if isinstance(text, str) else text.decode()):
        assert family.documentation, family.name
        for sample in family.samples:
            values = found.setdefault(sample.name, {})
            labels = tuple(sample.labels[name] for name in sorted(sample.labels, key=_place))
            assert labels not in values, f"{sample.name}{sample.labels} occurs twice"
            values[labels] = sample.value
    return found


def _place(label: str) -> tuple[bool, str]:
    """Return the sort key of a label: labels that identify the sample come first, others follow alphabetically."""
    return label not in ("pool", "process", "version"), label


def documented(sample: str) -> bool:
    """Return whether docs/reference/prometheus.md has a row for a sample's metric."""
    return re.sub(r"_(bucket|sum|count)$", "", sample) in _manual() or sample in _manual()


@cache
def _manual() -> frozenset[str]:
    text = (ROOT / "docs" / "reference" / "prometheus.md").read_text()
    return frozenset(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
