"""The text page of a running agent: its figures are those of the reports, and no client delays a report."""

from __future__ import annotations

import contextlib
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_agent.text_page.text_page import TextPage
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError
from lbdns_shared.metric_catalogue import EXTRA_METRICS
from lbdns_tools.free_ports import free_port
from tests.agent.agents import NAME, QUIET, agent, receiver
from tests.agent.test_agent_loop import ATTEMPTS, COUNT, INTERVAL, assert_on_the_grid
from tests.agent.waiting import PATIENCE, until

REQUEST = b"GET / HTTP/1.1\r\n\r\n"


def get(port: int) -> str:
    """Return the page, or an empty text if the agent does not serve it yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE) as response:
            text: str = response.read().decode()
    except urllib.error.URLError:
        return ""
    return text


def figures(text: str) -> dict[str, float]:
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def test_the_page_has_more_than_the_reports(tmp_path: Path) -> None:
    port = free_port()
    with receiver() as collector:
        arguments = ("--collector", collector.where, "--interval", "0.2", *QUIET, "--serve", str(port))
        with agent(tmp_path, *arguments) as running:
            until(lambda: EXTRA_METRICS.keys() <= figures(get(port)).keys())
            assert running.lines(f"serving the figures of this host at http://127.0.0.1:{port}/") == 1
            text = get(port)
            assert text.startswith(f"# {NAME}: ")
            found = figures(text)
            assert 0.0 <= found["sample_age_seconds"] < PATIENCE
            assert found["sample_interval_seconds"] == 0.2
            assert found["processes_total"] == found["process_count"] >= 1
            assert found["load_15min"] == pytest.approx(found["load15"])
            cpu = ("user", "system", "iowait", "idle", "steal")
            assert sum(found[f"cpu_{use}_percent"] for use in cpu) == pytest.approx(100.0, abs=1.0)
            for _ in range(3):
                assert EXTRA_METRICS.keys().isdisjoint(collector.take().metrics), "reports stay as small as before"

            running.reload()
            until(lambda: running.lines("reloaded"))
            assert figures(get(port))["processes_total"] >= 1
            assert running.stop() == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def test_with_all_metrics_reports_have_those_of_the_page(tmp_path: Path) -> None:
    with receiver() as collector:
        arguments = ("--collector", collector.where, "--interval", "0.2", *QUIET, "--metrics", "all")
        with agent(tmp_path, *arguments, "--serve", str(free_port())):
            until(lambda: EXTRA_METRICS.keys() <= collector.take().metrics.keys())


def test_the_page_shows_the_alarm(tmp_path: Path) -> None:
    port = free_port()
    quiet = ("--gateway", "off", "--server-status", "off", "--interval", "0.2")
    with agent(tmp_path, "--serve", str(port), *quiet, "--alarm", "mem_available>0"):
        until(lambda: "\n# alarm: mem_available " in get(port))


@contextlib.contextmanager
def bad_clients(port: int) -> Iterator[None]:
    """Open connections all the time: some silent, some that read nothing, some that send a byte now and then."""
    end = threading.Event()

    def run() -> None:
        with contextlib.ExitStack() as stack:
            clients: list[socket.socket] = []
            while not end.wait(0.01):
                with contextlib.suppress(OSError):
                    client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=0.05))
                    clients.append(client)
                    client.sendall(REQUEST if len(clients) % 3 == 0 else b"G")
                    for other in clients[-20:]:
                        with contextlib.suppress(OSError):
                            other.sendall(b"x")

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def test_no_client_delays_a_report(tmp_path: Path) -> None:
    """One of some runs must keep to the grid, because a busy machine disturbs the others."""
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        port = free_port()
        with receiver() as collector:
            arguments = ("--collector", collector.where, "--interval", str(INTERVAL), *QUIET, "--serve", str(port))
            with agent(folder, *arguments):
                collector.take()
                with bad_clients(port):
                    for _ in range(COUNT):
                        collector.take()
            try:
                assert_on_the_grid(collector.times[1:], INTERVAL)
                return
            except AssertionError:
                if attempt == ATTEMPTS - 1:
                    raise


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LbdnsError, match=rf"--serve: cannot listen on 127\.0\.0\.1:{port}"):
            TextPage(Endpoint("127.0.0.1", port), str)


@pytest.mark.parametrize(("address", "status"), [("127.0.0.1", b"421"), ("0.0.0.0", b"200")])
def test_only_a_private_page_checks_the_name(address: str, status: bytes) -> None:
    page = TextPage(Endpoint(address, free_port()), str)
    try:
        assert page._respond(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").split()[1] == status
    finally:
        page.close()
