"""Tests with a real Prometheus that scrapes real servers: all expressions in the dashboard and alerts yield data."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lbdns.client.control_client import send_command
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.free_ports import free_port
from tests.answering.asking import make_query
from tests.monitoring.metrics_page import documented, page_of
from tests.monitoring.monitoring_files import ALERTS, CASES, CONFIG, OPTIONAL, expressions, names_of
from tests.needs import needs, program
from tests.server.clients import ask_tcp, ask_udp, until
from tests.server.running import Serving, serving, write_config

SOURCES = {"bilbo": "127.0.0.16", "frodo": "127.0.0.17", "gandalf": "127.0.0.18"}
POOL = 'shadow = "weighted"\ncheck = "tcp:9"'
PATIENCE = 60.0  # s for Prometheus to start and scrape


def get(where: Endpoint, path: str) -> bytes:
    with urllib.request.urlopen(f"http://{where}{path}", timeout=60) as response:
        body: bytes = response.read()
        return body


def page(server: Serving) -> bytes:
    return get(server.endpoint("serving "), "/metrics")


@asynccontextmanager
async def servers(folder: Path) -> AsyncIterator[tuple[Serving, Serving]]:
    """Run a server that has two workers and data for every metric, and a second server that follows the first."""
    for name in ("first", "second"):
        (folder / name).mkdir()
    config = write_config(folder / "first", server="workers = 2", pool=POOL, web="127.0.0.1:0")
    async with serving(config) as first:
        await first.waits_for("serving http://")
        for host, address in SOURCES.items():
            first.report(host, 50.0, 1, address)
        first.report("typo", 50.0, 1, SOURCES["bilbo"])
        await until(lambda: b'lbdns_reports_total{result="accepted"} 3' in page(first))
        await until(lambda: b'lbdns_reports_total{result="unknown_host"} 1' in page(first))
        for ask in (ask_udp, ask_tcp):
            await ask(first.endpoint(), make_query("best.hobbit"))
        await asyncio.to_thread(send_command, folder / "first" / "control.sock", "drain", member="frodo", reason="test")
        other = write_config(folder / "second", web="127.0.0.1:0")
        connect = f'connect = "http://{first.endpoint("serving ")}"'
        other.write_text(other.read_text().replace('[collector]\nlisten = ["127.0.0.1:0"]', f"[collector]\n{connect}"))
        async with serving(other) as second:
            await second.waits_for("connected")
            yield first, second


async def test_all_metrics_in_use_are_exported(tmp_path: Path) -> None:
    async with servers(tmp_path) as both:
        found: set[str] = set()
        for server in both:
            text = await asyncio.to_thread(page, server)
            found |= page_of(text).keys()
    used = names_of(ALERTS.read_text()) | {name for _, text in expressions() for name in names_of(text)}
    assert sorted(name for name in used - found if not name.startswith(OPTIONAL)) == []
    assert sorted(name for name in found if name.startswith("lbdns_") and not documented(name)) == []


@needs(programs=("promtool",))
@pytest.mark.parametrize(
    "arguments", [("check", "rules", str(ALERTS)), ("check", "config", str(CONFIG)), ("test", "rules", str(CASES))]
)
def test_rules(arguments: tuple[str, ...]) -> None:
    done = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def lint(text: bytes) -> str:
    """Return the exit status and output of ``promtool check metrics`` for a page: "0" if the page is correct."""
    command = [program("promtool"), "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, timeout=30, check=False)
    return f"{done.returncode}{done.stdout.decode()}{done.stderr.decode()}"


class Prometheus:
    """The HTTP API of a running Prometheus."""

    def __init__(self, where: Endpoint) -> None:
        self._where = where

    def get_data(self, path: str, **parameters: str) -> Any:
        """Return the data of an API response. Raises AssertionError if the request fails."""
        text = get(self._where, f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        document = json.loads(text)
        assert document["status"] == "success", document
        return document["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get_data("query", query=expression)["result"]
        return found

    def is_ready(self) -> bool:
        try:
            get(self._where, "/-/ready")
        except OSError:
            return False
        return True


@asynccontextmanager
async def scraping(folder: Path, *targets: Endpoint) -> AsyncIterator[Prometheus]:
    """Run Prometheus with the configuration in monitoring/, changed to scrape ``targets`` twice a second."""
    (folder / "alerts.yml").write_text(ALERTS.read_text())
    text = CONFIG.read_text().replace("15s", "500ms")
    names = ", ".join(f'"{target}"' for target in targets)
    text = re.sub(r"- targets:\n(?: +#.*\n)* +- 127.0.0.1:8053", f"- targets: [{names}]", text)
    assert names in text
    (folder / "prometheus.yml").write_text(text)
    where = Endpoint("127.0.0.1", free_port())
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program("prometheus"), f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={where}",
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        found = Prometheus(where)
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(found.is_ready):
                assert process.returncode is None, (folder / "prometheus.log").read_text()
                await asyncio.sleep(0.05)
        yield found
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 60)


@needs(programs=("prometheus", "promtool"))
async def test_prometheus_scrapes_and_answers(tmp_path: Path) -> None:
    async with servers(tmp_path) as both:
        for server in both:
            assert await asyncio.to_thread(lint, await asyncio.to_thread(page, server)) == "0"
        targets = [server.endpoint("serving ") for server in both]
        async with scraping(tmp_path, *targets) as prometheus:

            async def eventually(expression: str) -> list[dict[str, Any]]:
                async with asyncio.timeout(PATIENCE):
                    while not (found := await asyncio.to_thread(prometheus.query, expression)):  # noqa: ASYNC110
                        await asyncio.sleep(0.1)
                return found

            await eventually("sum(up) == 2")
            (score,) = await eventually('lbdns_member_score{member="gandalf"} and on (instance) lbdns_reports_total')
            assert score["metric"]["pool"] == "web"
            assert (await eventually('lbdns_pool_members{state="drained"} == 1'))[0]["metric"]["pool"] == "web"
            await eventually("sum(rate(lbdns_event_loop_lag_seconds_count[10s])) > 0")
            await eventually("min(count_over_time(up[1m])) >= 3")
            for place, expression in expressions():
                try:
                    if re.search(r" [<>] \d$", expression) or any(map(expression.__contains__, OPTIONAL)):
                        await asyncio.to_thread(prometheus.query, expression)
                    else:  # a busy machine may scrape too rarely for a rate, for a while
                        await eventually(expression)
                except TimeoutError:
                    raise AssertionError(f"{place}: no data for {expression}") from None
                except OSError as error:
                    raise AssertionError(f"{place}: {expression}: {error}") from None
            groups = (await asyncio.to_thread(prometheus.get_data, "rules"))["groups"]
            assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}
