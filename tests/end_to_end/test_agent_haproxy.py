"""HAProxy's metrics from a real HAProxy by an agent to a server, as docs/tasks/run-agent.md configures HAProxy and the
agent."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.agent.web import ForkingServer, answer, web_server
from tests.agent.web_programs import HAPROXY, get, haproxy, open_request
from tests.end_to_end.harness import Site, new_site, serving
from tests.end_to_end.process import eventually, python, running
from tests.needs import needs

pytestmark = needs(programs=("haproxy",))

PAGE: Final = (Path(__file__).parents[2] / "docs" / "tasks" / "run-agent.md").read_text()
HOST: Final = "gandalf"
INTERVAL: Final = 0.5  # seconds between reports
SLOTS: Final = 2  # requests that HAProxy's server gets at once
REQUESTS: Final = 30


def block(language: str, containing: str) -> str:
    """Return the page's only block in ``language`` that contains a text."""
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (found,) = (text for text in blocks if containing in text)
    return found


@dataclass(frozen=True)
class Farm:
    """A server, and an agent that measures an HAProxy."""

    site: Site
    port: int  # of HAProxy's clients

    def metrics(self) -> dict[str, float]:
        found: dict[str, float] = self.site.members_by_name()[HOST].get("metrics", {})
        return found

    def reports(self, **values: float) -> bool:
        """Return whether the server has these metrics."""
        metrics = self.metrics()
        return all(metrics.get(name) == value for name, value in values.items())


def agent_section(place: str, folder: Path, port: int, csv: int) -> str:
    """Return the page's section ``[web-server]`` for HAProxy's socket or CSV page, with the places of this HAProxy."""
    if place == "socket":
        text = block("ini", "/run/haproxy/admin.sock").replace("/run/haproxy/admin.sock", str(folder / "stats.sock"))
        # Without the key, the agent would watch port 80
        return f"{text}watch = 127.0.0.1:{port}\n"
    return block("ini", ";csv").replace(":8404/", f":{csv}/").replace("127.0.0.1:80\n", f"127.0.0.1:{port}\n")


@contextlib.contextmanager
def farm(folder: Path, place: str, web: int) -> Iterator[Farm]:
    """Run HAProxy before a web server on port ``web``, an agent that measures HAProxy, and a server."""
    site = new_site(folder, {HOST: ["127.0.0.1"]})
    site.write()
    with haproxy(folder, web, f"maxconn {SLOTS}") as (port, csv):
        configuration = folder / "agent.conf"
        configuration.write_text(agent_section(place, folder, port, csv))
        agent = python(
            "lbdns_agent", "--config", str(configuration), "--collector", f"127.0.0.1:{site.report_port}",
            "--name", HOST, "--key-file", str(site.agent_key_file(HOST)), "--interval", str(INTERVAL),
            "--gateway", "off", "--alarm", "off",
        )  # fmt: skip
        with serving(site), running(*agent):
            made = Farm(site, port)
            eventually(lambda: made.reports(busy_workers=1, idle_workers=SLOTS, haproxy_queue=0), "an idle HAProxy")
            yield made


def one_answer(connection: socket.socket, request: bytes) -> None:
    """Answer one request, and close the connection."""
    connection.sendall(answer(b"x"))
    connection.close()


def test_the_pages_configuration_of_haproxy_is_the_one_that_is_tested() -> None:
    assert block("haproxy", "stats uri").replace(":8404", ":{csv}") in HAPROXY


@pytest.mark.parametrize("place", ["socket", "page"])
def test_the_server_knows_how_many_requests_haproxy_received(tmp_path: Path, place: str) -> None:
    with web_server(one_answer) as url, farm(tmp_path, place, int(url.split(":")[2].split("/")[0])) as made:
        eventually(lambda: "requests_per_s" in made.metrics(), "two reports")
        before = made.metrics()["requests_total"]
        for _ in range(REQUESTS):
            get(made.port)
        eventually(lambda: made.metrics()["requests_total"] >= before + REQUESTS, "all requests are counted")


@pytest.mark.parametrize("place", ["socket", "page"])
def test_the_server_knows_requests_in_progress_and_in_haproxys_queue(tmp_path: Path, place: str) -> None:
    with ForkingServer() as silent, farm(tmp_path, place, silent.port) as made, contextlib.ExitStack() as clients:
        for _ in range(SLOTS):
            clients.enter_context(open_request(made.port))
        # The agent's own request is one of the busy workers
        eventually(lambda: made.reports(busy_workers=1 + SLOTS, idle_workers=0, haproxy_queue=0), "all slots are busy")
        clients.enter_context(open_request(made.port))
        eventually(lambda: made.reports(busy_workers=2 + SLOTS, haproxy_queue=1), "a request waits")
