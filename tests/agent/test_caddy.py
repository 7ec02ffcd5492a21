"""Caddy's metrics, from a real Caddy, as docs/tasks/run-agent.md configures Caddy and the agent."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.waiting import until
from tests.agent.web import hanging, web_server
from tests.agent.web_programs import caddy, get, open_request
from tests.needs import needs

PAGE = (Path(__file__).parents[2] / "docs" / "tasks" / "run-agent.md").read_text()
REQUESTS = 20


def block(language: str, containing: str) -> str:
    """Return the page's only block in ``language`` that contains a text."""
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (found,) = (text for text in blocks if containing in text)
    return found


def sample(configuration: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "lbdns_agent", "--config", str(configuration), "--gateway", "off", "--once"]
    document: dict[str, Any] = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True).stdout)
    return document


@needs(programs=("caddy",))
@pytest.mark.parametrize(
    ("host", "handler"), [("http://x", "subroute"), ("", "vars")], ids=["with a host name", "without"]
)
def test_the_page_makes_the_agent_count_every_request_once(tmp_path: Path, host: str, handler: str) -> None:
    tmp_path.chmod(0o755)
    configuration = tmp_path / "agent.conf"
    with (
        web_server(hanging) as silent,
        caddy(tmp_path, block("caddyfile", "metrics"), host, int(silent.split(":")[2].split("/")[0])) as (port, admin),
    ):
        text = block("ini", "caddy_http_requests_total").replace(":2019/", f":{admin}/")
        configuration.write_text(text.replace('"subroute"', f'"{handler}"'))
        for number in range(REQUESTS):
            get(port, "/hello" if number % 2 else "/absent")
        metrics: dict[str, float] = {}

        def is_measured(busy: int) -> bool:
            metrics.update(sample(configuration)["metrics"])
            return metrics.get("busy_workers") == busy and "requests_per_s" in metrics

        until(lambda: is_measured(busy=0))
        assert metrics["requests_total"] == REQUESTS
        with open_request(port, "/slow"), open_request(port, "/slow"):
            until(lambda: is_measured(busy=2))
