"""A real HAProxy follows the agent: its weight, alarms, orders, stop and start."""

from __future__ import annotations

import contextlib
import csv
import http.server
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_agent.agent_check.agent_check import AgentCheck
from lbdns_agent.agent_check.check_server import LINGER
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.free_ports import free_port
from tests.agent.agents import agent, receiver
from tests.agent.waiting import until
from tests.needs import needs, program

CONFIG = """\
global
    stats socket {folder}/admin.sock mode 600 level admin
    maxconn 50
defaults
    mode http
    timeout connect 2s
    timeout client 2s
    timeout server 2s
backend web
    server first 127.0.0.1:{web} weight 100 check inter 200ms agent-check agent-port {port} agent-inter 100ms
"""
ARGUMENTS = ("--interval", "0.2", "--gateway", "off", "--server-status", "off")


class RunningHaproxy:
    """An HAProxy with one server, whose agent listens on ``port``."""

    def __init__(self, folder: Path, web: int) -> None:
        self.port = free_port()
        self._socket = str(folder / "admin.sock")
        (folder / "haproxy.cfg").write_text(CONFIG.format(folder=folder, web=web, port=self.port))
        with (folder / "log").open("wb") as log:
            command = [program("haproxy"), "-db", "-f", str(folder / "haproxy.cfg")]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._reaches)

    def ask(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(self._socket)
            sock.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: sock.recv(65536), b"")).decode()

    def state(self) -> tuple[str, int]:
        """Return the status and the weight of the server."""
        rows = csv.DictReader(self.ask("show stat web 4 -1")[2:].splitlines())
        (row,) = rows
        return row["status"].split()[0], int(row["weight"])

    def _reaches(self) -> bool:
        try:
            return bool(self.ask("show info"))
        except OSError:
            return False


@pytest.fixture
def haproxy(tmp_path: Path) -> Iterator[RunningHaproxy]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as web:
        thread = threading.Thread(target=web.serve_forever, args=(0.05,))
        thread.start()
        running = RunningHaproxy(tmp_path, web.server_address[1])
        try:
            yield running
        finally:
            running.process.kill()
            running.process.wait()
            web.shutdown()
            thread.join()


@contextlib.contextmanager
def agent_check(port: int) -> Iterator[tuple[AgentCheck, list[str]]]:
    """Yield an agent's answers in a loop of its own, and a list whose last element is the alarm."""
    alarms = [""]
    check = AgentCheck(Endpoint("127.0.0.1", port), None, lambda: alarms[-1])
    tasks = SensorTasks()
    tasks.services.append(check.server)
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            tasks._poll(0.0, None)
            ended.wait(0.01)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield check, alarms
    finally:
        ended.set()
        thread.join()
        check.close()


def reaches(haproxy: RunningHaproxy, status: str, weight: int | None = None) -> None:
    """Wait until the server has a status, and a weight unless it is None."""
    until(lambda: haproxy.state()[0] == status and weight in (None, haproxy.state()[1]))


@needs(programs=("haproxy",))
def test_the_weight_follows_the_free_capacity(haproxy: RunningHaproxy) -> None:
    with agent_check(haproxy.port) as (check, alarms):
        for idle, weight in ((75.0, 75), (30.0, 30), (0.0, 1), (100.0, 100)):
            check.observe({})  # begins a new moving average
            check.observe({"cpu_idle": idle})
            reaches(haproxy, "UP", weight)
        alarms.append("run_queue 130 > 100")
        reaches(haproxy, "UP", 0)
        alarms.append("")
        reaches(haproxy, "UP", 100)


@needs(programs=("haproxy",))
def test_an_alarm_that_ends_leaves_the_drain_of_an_operator(haproxy: RunningHaproxy) -> None:
    with agent_check(haproxy.port) as (check, alarms):
        check.observe({"cpu_idle": 50.0})
        reaches(haproxy, "UP", 50)
        haproxy.ask("set server web/first state drain")
        alarms.append("run_queue 130 > 100")
        reaches(haproxy, "DRAIN", 0)
        alarms.append("")
        reaches(haproxy, "DRAIN", 50)


@needs(programs=("haproxy",))
def test_alarms_orders_stop_and_start_of_an_agent(haproxy: RunningHaproxy, tmp_path: Path) -> None:
    where, order = f"127.0.0.1:{haproxy.port}", tmp_path / "order"
    check = ("--agent-check", where, "--agent-check-file", str(order))
    with agent(tmp_path, *ARGUMENTS, "--alarm", "load1>=0", *check):
        reaches(haproxy, "UP", 0)
    with agent(tmp_path, *ARGUMENTS, "--alarm", "off", *check) as running:
        until(lambda: haproxy.state()[1] >= 1)
        reaches(haproxy, "UP")
        for word, status in (("maint", "MAINT"), ("drain", "DRAIN")):
            order.write_text(word)
            reaches(haproxy, status)
        order.unlink()
        reaches(haproxy, "UP")
        running.process.send_signal(signal.SIGTERM)
        reaches(haproxy, "UP", 0)
        assert running.process.wait(timeout=60) == 0
        assert running.lines("stopped") == 1
    with agent(tmp_path, *ARGUMENTS, "--alarm", "off", *check):
        until(lambda: haproxy.state()[1] >= 1)
        reaches(haproxy, "UP")


def test_clients_never_delay_a_report(tmp_path: Path) -> None:
    port = free_port()
    with receiver() as collector, contextlib.ExitStack() as stack:
        check = ("--agent-check", str(port), "--collector", collector.where)
        stack.enter_context(agent(tmp_path, *ARGUMENTS, "--alarm", "off", *check))
        collector.take()
        silent: list[socket.socket] = []
        for _ in range(15):
            collector.take()
            clients = (socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(5))
            silent += [stack.enter_context(client) for client in clients]
    assert [report.seq for report in collector.reports] == list(range(1, 17)), "no report is left out"
    # A busy machine delays some reports; a client that delays them would delay each by LINGER
    gaps = [after.time - before.time for before, after in zip(collector.reports[1:], collector.reports[2:])]
    assert sorted(gaps)[len(gaps) // 2] < LINGER / 2


def test_a_stop_without_haproxy_takes_no_time_and_a_taken_port_is_an_error(tmp_path: Path) -> None:
    with agent(tmp_path, *ARGUMENTS, "--agent-check", f"127.0.0.1:{free_port()}") as running:
        until(lambda: "answering HAProxy's agent checks" in running.log)
        assert running.stop() == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with agent(tmp_path, *ARGUMENTS, "--agent-check", f"127.0.0.1:{port}") as running:
            assert running.process.wait(timeout=60) == 1
            assert f"--agent-check: cannot listen on 127.0.0.1:{port}: Address already in use" in running.log
