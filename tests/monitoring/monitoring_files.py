"""Reads the files in monitoring/ for tests: alert rules, Prometheus configuration and Grafana dashboard."""

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
#: The beginnings of the names of metrics that only servers with a bus, or pools with a backup or with sites, export
OPTIONAL = ("lbdns_bus_", "lbdns_shared_", "lbdns_pool_backup_", "lbdns_site_")
#: Values such as Grafana substitutes for its variables
_VARIABLES = {"$__rate_interval": "1m", "$instance": ".*", "$pool": ".*"}


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return document


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard, without the rows that group the panels."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Yield every PromQL expression of the dashboard, with a title that tells where the expression is used."""
    for panel in panels():
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", _substituted(target["expr"])
    for annotation in dashboard()["annotations"]["list"]:
        if "expr" in annotation:
            yield annotation["name"], _substituted(annotation["expr"])


def _substituted(expression: str) -> str:
    for name, value in _VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def names_of(text: str) -> set[str]:
    """Return the metrics named in PromQL expressions."""
    return set(re.findall(r"\b(?:lbdns|process)_\w+\b(?!:)", text))


def alerts() -> list[str]:
    return re.findall(r"- alert: (\w+)", ALERTS.read_text())
