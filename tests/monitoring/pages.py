"""Reading a page of /metrics, and what the manual says of it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

#: Sample name -> values of its labels -> value
Page = dict[str, dict[tuple[str, ...], float]]
ROOT = Path(__file__).parents[2]


def page_of(text: str | bytes) -> Page:
    """Read by prometheus_client's own parser."""
    found: Page = {}
    for family in text_string_to_metric_families(text if isinstance(text, str) else text.decode()):
        assert family.documentation, family.name
        for sample in family.samples:
            values = found.setdefault(sample.name, {})
            labels = tuple(sample.labels[name] for name in sorted(sample.labels, key=_place))
            assert labels not in values, f"{sample.name}{sample.labels} is there twice"
            values[labels] = sample.value
    return found


def _place(label: str) -> tuple[bool, str]:
    """What a sample belongs to comes first, then by the alphabet."""
    return label not in ("pool", "process", "version"), label


def documented(sample: str) -> bool:
    """Whether docs/monitoring.md has a row about it."""
    return re.sub(r"_(bucket|sum|count)$", "", sample) in _manual() or sample in _manual()


@cache
def _manual() -> frozenset[str]:
    text = (ROOT / "docs" / "monitoring.md").read_text()
    return frozenset(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
