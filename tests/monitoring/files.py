"""The files of monitoring/ as a test reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "monitoring"
ALERTS = FOLDER / "alerts.yml"
CASES = FOLDER / "alerts-test.yml"
CONFIG = FOLDER / "prometheus.yml"
DASHBOARD = FOLDER / "grafana-dashboard.json"
#: Such as Grafana puts in for its variables
_VARIABLES = {"$__rate_interval": "1m", "$instance": ".*", "$pool": ".*"}


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def panels() -> list[dict[str, Any]]:
    """Those that show something, without the rows that divide them."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Where it stands, and what Prometheus would be asked there."""
    for panel in panels():
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", _filled_in(target["expr"])
    for annotation in dashboard()["annotations"]["list"]:
        if "expr" in annotation:
            yield annotation["name"], _filled_in(annotation["expr"])


def _filled_in(expression: str) -> str:
    for name, value in _VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def names_of(text: str) -> set[str]:
    """The metrics that expressions name."""
    return set(re.findall(r"\b(?:lbdns|process)_\w+\b(?!:)", text))


def alerts() -> list[str]:
    return re.findall(r"- alert: (\w+)", ALERTS.read_text())
