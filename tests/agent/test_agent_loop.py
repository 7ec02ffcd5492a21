"""Tests of the whole agent: agents run as separate processes, and the tests receive their reports."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_shared.keys import agent_line, new_master_key
from lbdns_shared.report import WEB_SERVER_FAILED
from lbdns_tools.free_ports import free_port
from tests.agent.agents import QUIET, RunningAgent, agent, receiver
from tests.agent.waiting import until
from tests.agent.web import ForkingServer, Handler, answer, counting, hanging, web_server
from tests.needs import needs

INTERVAL = 0.1
COUNT = 20
ATTEMPTS = 12  # each takes about 2.5 s; on an idle machine, the first one succeeds


def assert_on_the_grid(times: list[float], interval: float) -> None:
    """Assert that nearly all times are whole multiples of ``interval`` apart, and that they do not drift."""
    steps = [round((at - times[0]) / interval) for at in times]
    late = [at - step * interval for at, step in zip(times, steps)]
    half = len(late) // 2
    assert abs(statistics.median(late[half:]) - statistics.median(late[:half])) < 0.1 * interval
    middle = statistics.median(late)
    assert sum(abs(at - middle) < 0.3 * interval for at in late) >= 0.8 * len(late), late
    assert steps[-1] <= len(steps) + 3, "a busy machine may skip a tick, but not many"
    assert len(set(steps)) == len(steps), "none is made up for"


def forever_half(connection: socket.socket, request: bytes) -> None:
    """Send the first half of a status page, and nothing more."""
    connection.sendall(answer(b"Total Accesses: 5\nBusyWorkers: 1\nIdle" + b" " * 100)[:-80])


@pytest.mark.parametrize("handler", [None, hanging, forever_half], ids=["none", "hanging", "half"])
def test_the_cadence_is_fixed_whatever_the_web_server_does(tmp_path: Path, handler: Handler | None) -> None:
    """One of some runs must keep to the grid, because a busy machine disturbs the others."""
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        try:
            sent, received = times_of_reports(folder, handler)
            assert_on_the_grid(received, INTERVAL)
            assert_on_the_grid(sent, INTERVAL)
            return
        except AssertionError:
            if attempt == ATTEMPTS - 1:
                raise


def times_of_reports(folder: Path, handler: Handler | None) -> tuple[list[float], list[float]]:
    """Run an agent beside this web server, and return when it sent its reports and when they arrived."""
    with contextlib.ExitStack() as stack:
        collector = stack.enter_context(receiver())
        url = stack.enter_context(web_server(handler)) if handler else "off"
        arguments = ("--interval", str(INTERVAL), "--gateway", "off", "--alarm", "off", "--server-status", url)
        running = stack.enter_context(agent(folder, "--collector", collector.where, *arguments))
        for _ in range(COUNT + 3):
            collector.take()
        assert running.stop() == 0
    reports, times = collector.reports[3:], collector.times[3:]
    assert [report.seq for report in reports] == list(range(4, COUNT + 4)), "none is left out"
    for report in reports:
        assert report.kind == "data"
        assert report.interval == INTERVAL
        assert "busy_workers" not in report.metrics
        assert {"run_queue", "load1"} <= set(report.metrics)
    measured = sum("cpu_idle" in report.metrics for report in reports)
    assert measured >= COUNT // 2, "two readings of a busy machine may be too close for a difference"
    if handler:
        assert running.lines("busy_workers, idle_workers") == 1, running.log
    return [report.time for report in reports], times


def test_a_server_that_answers_slower_than_a_report_waits_serves_the_next_round(tmp_path: Path) -> None:
    """The delay of 0.15 s is longer than reports wait for readings (0.05 s), but shorter than the interval (0.2 s)."""
    count = counting()

    def slow(connection: socket.socket, request: bytes) -> None:
        time.sleep(0.15)
        count(connection, request)

    arguments = ("--interval", "0.2", "--gateway", "off", "--alarm", "off")
    with web_server(slow) as url, receiver() as collector:
        with_status = ("--collector", collector.where, "--server-status", url)
        with agent(tmp_path, *with_status, *arguments):
            for _ in range(4):
                collector.take()
            # What was asked for in one round is told in the next
            told: list[float] = []
            while len(told) < 6:
                metrics = collector.take().metrics
                told += [metrics["requests_total"]] if "requests_total" in metrics else []
    assert told == sorted(set(told)), "no answer is told twice"


def test_web_server_metrics_break_and_recover_with_one_line_each(tmp_path: Path) -> None:
    mood: list[Handler] = [counting()]

    def handle(connection: socket.socket, request: bytes) -> None:
        mood[0](connection, request)

    arguments = ("--interval", str(INTERVAL), "--gateway", "off", "--alarm", "off")
    with contextlib.ExitStack() as stack:
        collector = stack.enter_context(receiver())
        url = stack.enter_context(web_server(handle))
        running = stack.enter_context(
            agent(tmp_path, "--collector", collector.where, "--server-status", url, *arguments)
        )
        collector.take()  # the first difference is over a phase of chance
        until(lambda: "requests_per_s" in collector.take().metrics)
        # Each read is one request. On a busy machine two reads can be much closer together than an interval.
        assert collector.reports[-1].metrics["requests_per_s"] > 0
        assert collector.reports[-1].metrics["idle_workers"] == 8.0
        # A busy machine may have missed some rounds by itself, and a late page serves the next round
        mood[0] = lambda connection, request: connection.close()
        until(lambda: ["idle_workers" in collector.take().metrics for _ in range(5)] == [False] * 5)
        broken = changes_of_idle_workers(running)
        assert broken[0] == "not measured"
        assert all(change != after for change, after in zip(broken, broken[1:])), "one line for many rounds"
        assert broken[-1] == "not measured"
        mood[0] = counting()
        until(lambda: "idle_workers" in collector.take().metrics)
        until(lambda: changes_of_idle_workers(running)[: len(broken) + 1] == [*broken, "measured again"])


def changes_of_idle_workers(running: RunningAgent) -> list[str]:
    """Return for each log line about idle_workers whether the metric was "not measured" or "measured again"."""
    lines = [line for line in running.log.splitlines() if "idle_workers" in line]
    return ["measured again" if "measured again" in line else "not measured" for line in lines]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_goodbye(tmp_path: Path, number: signal.Signals) -> None:
    with receiver() as collector, agent(tmp_path, "--collector", collector.where, *QUIET) as running:
        last = collector.take()
        assert running.stop(number) == 0
        bye = collector.until("bye")
    assert (bye.boot, bye.seq) == (last.boot, collector.reports[-2].seq + 1)
    assert bye.metrics == {}
    assert running.lines("stopped") == 1


def test_reports_count_up_and_a_new_agent_is_another_boot(tmp_path: Path) -> None:
    boots = []
    for _ in range(2):
        with receiver() as collector, agent(tmp_path, "--collector", collector.where, "--interval", "0.1", *QUIET):
            before = time.time()
            reports = [collector.take() for _ in range(3)]
        assert [report.seq for report in reports] == [1, 2, 3]
        assert all(abs(report.time - before) < 300 for report in reports)
        assert len({report.boot for report in reports}) == 1
        boots.append(reports[0].boot)
    assert boots[0] != boots[1]


def test_agents_start_at_a_phase_of_their_own(tmp_path: Path) -> None:
    phases = []
    for number in range(6):
        with receiver() as collector, agent(tmp_path, "--collector", collector.where, "--interval", "0.5", *QUIET):
            collector.take()
            phases.append(collector.times[0] % 0.5)
        assert number < 6
    assert max(phases) - min(phases) > 0.02, "all at the same phase"


def test_several_collectors_by_address_and_by_name(tmp_path: Path) -> None:
    with receiver() as one, receiver("127.0.0.2") as two:
        by_name = one.where.replace("127.0.0.1", "localhost")
        arguments = ("--collector", two.where, "--collector", by_name, "--interval", "0.1", *QUIET)
        with agent(tmp_path, *arguments):
            for collector in (one, two):
                assert [collector.take().seq for _ in range(3)][-1] >= 3


@needs(ipv6=True)
def test_a_collector_by_ipv6(tmp_path: Path) -> None:
    with receiver("::1") as collector, agent(tmp_path, "--collector", collector.where, "--interval", "0.1", *QUIET):
        assert collector.take().kind == "data"


def test_an_interval_that_collectors_do_not_accept_by_default_is_logged(tmp_path: Path) -> None:
    for interval, lines in (("60", 0), ("61", 1)):
        with receiver() as collector:
            arguments = ("--collector", collector.where, "--interval", interval, *QUIET)
            with agent(tmp_path, *arguments) as running:
                until(lambda: running.lines("reporting as") == 1)
                assert running.stop() == 0
        assert running.lines("set [collector] max_interval to at least 61") == lines


def test_a_collector_that_is_down_first_and_up_later(tmp_path: Path) -> None:
    port = free_port()
    with agent(tmp_path, "--collector", f"127.0.0.1:{port}", "--interval", "0.1", *QUIET) as running:
        until(lambda: running.lines("can't be reached") == 1)
        with receiver(port=port) as collector:
            for _ in range(3):
                collector.take()
            until(lambda: running.lines("can be reached again") == 1)
            assert running.lines("can't be reached: Connection refused") == 1
        assert running.stop() == 0


def test_reports_are_signed(tmp_path: Path) -> None:
    master = new_master_key()
    path = tmp_path / "agent.key"
    path.touch(mode=0o600)
    path.write_text(agent_line(master.agent_key("gandalf")))
    arguments = ("--interval", "0.1", "--key-file", str(path), *QUIET)
    with receiver() as collector, agent(tmp_path, "--collector", collector.where, *arguments) as running:
        collector.take(key=master.agent_key("gandalf"))
        # A bad file changes nothing; a good one is taken over
        path.write_text("agent gandalf nonsense")
        running.reload()
        until(lambda: running.lines("keeping the old key") == 1)
        collector.take(key=master.agent_key("gandalf"))
        second = new_master_key()
        path.write_text(second.line())
        running.reload()
        until(lambda: running.lines("reloaded") == 2)
        while True:  # what was under way is of the old key
            with contextlib.suppress(AssertionError):
                collector.take(key=second.agent_key("gandalf"))
                break
        assert "Traceback" not in running.log


def test_a_key_file_that_others_can_read_is_warned_of_once(tmp_path: Path) -> None:
    path = tmp_path / "agent.key"
    path.write_text(new_master_key().line())
    path.chmod(0o644)
    arguments = ("--collector", "127.0.0.1:9", "--key-file", str(path), *QUIET)
    with agent(tmp_path, *arguments) as running:
        until(lambda: running.lines("reporting as") == 1)
        assert running.lines("lets other users read it") == 1


ALARMED = ("--server-status", "off", "--gateway", "off", "--interval")


@contextlib.contextmanager
def connections(port: int) -> Iterator[None]:
    """Keep 20 connections open."""
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        yield


def test_an_alarm_goes_at_once() -> None:
    with ForkingServer() as server, receiver() as collector:
        url = f"http://127.0.0.1:{server.port}/"
        # The next report is due in 10 min; a receiver waits 1 min
        arguments = ("--gateway", "off", "--server-status", url, "--interval", "600", "--alarm", "listen_queue>5")
        with agent_at_once(collector.where, *arguments):
            first = collector.take()
            assert first.kind == "data", "the agent's own question waits in the queue too, but alone"
            with connections(server.port):
                alarm = collector.take()
    assert (alarm.kind, alarm.seq) == ("alarm", first.seq + 1)
    assert alarm.alarm == f"listen_queue {alarm.metrics['listen_queue']:g} > 5"
    assert alarm.metrics["listen_queue"] > 5
    assert "cpu_idle" in alarm.metrics or "cpu_idle" not in first.metrics


def test_an_alarm_lasts_as_long_as_the_overload(tmp_path: Path) -> None:
    with ForkingServer() as server, receiver() as collector:
        url = f"http://127.0.0.1:{server.port}/"
        arguments = ("--gateway", "off", "--server-status", url, "--interval", "0.3", "--alarm", "listen_queue>5")
        with connections(server.port), agent(tmp_path, "--collector", collector.where, *arguments) as running:
            reports = [collector.take() for _ in range(4)]
            assert [report.kind for report in reports] == ["alarm"] * 4, "while it lasts every report is one"
            assert all(report.metrics["listen_queue"] >= 20 for report in reports)
            server.do("server.setblocking(False)")
            server.do("exec('try:\\n while True: server.accept()\\nexcept BlockingIOError: pass')")
            assert collector.until("data").metrics["listen_queue"] <= 5
            assert running.stop() == 0
        assert running.lines("overloaded: listen_queue") == 1
        assert running.lines("no longer overloaded") == 1


def test_an_alarm_goes_as_soon_as_the_web_server_is_gone_and_data_as_soon_as_it_is_back(tmp_path: Path) -> None:
    with ForkingServer(children=0) as server, receiver() as collector:
        url = f"http://127.0.0.1:{server.port}/"
        arguments = ("--gateway", "off", "--server-status", url, "--interval", "600", "--alarm", "run_queue>1e9")
        with agent_at_once(collector.where, *arguments):
            first = collector.take()
            assert first.kind == "data"
            # The next report is due in 10 min; a receiver waits 1 min
            server.do("server.close()")
            alarm = collector.take()
            assert (alarm.kind, alarm.seq, alarm.metrics) == ("alarm", first.seq + 1, {})
            assert alarm.alarm == f"{WEB_SERVER_FAILED}: nothing listens on port {server.port}"
            server.do(f"server = socket.create_server(('127.0.0.1', {server.port}))")
            again = collector.take()
            assert (again.kind, again.seq) == ("data", alarm.seq + 1)
            assert "load1" in again.metrics


def test_while_the_web_server_is_gone_every_report_is_an_alarm(tmp_path: Path) -> None:
    with ForkingServer(children=0) as server, receiver() as collector:
        url = f"http://127.0.0.1:{server.port}/"
        arguments = ("--gateway", "off", "--server-status", url, "--interval", "0.3", "--alarm", "load1>=0")
        with agent(tmp_path, "--collector", collector.where, *arguments) as running:
            assert collector.until("alarm").alarm.startswith("load1 ")
            server.do("server.close()")
            until(lambda: collector.take().alarm.startswith(WEB_SERVER_FAILED))
            failed = [collector.reports[-1], *(collector.take() for _ in range(5))]
            assert all(report.alarm.startswith(WEB_SERVER_FAILED) for report in failed)
            # The alarm itself has no metrics; the reports that follow do
            assert ["load1" in report.metrics for report in failed[:3]] == [False, True, True]
            server.do(f"server = socket.create_server(('127.0.0.1', {server.port}))")
            until(lambda: collector.take().alarm.startswith("load1 "))
            assert running.stop() == 0
        assert running.lines(WEB_SERVER_FAILED) == 1
        assert running.lines("the web server is listening again") == 1
        assert running.lines("overloaded: load1") == 1


def test_without_alarms_the_web_server_is_not_watched(tmp_path: Path) -> None:
    with ForkingServer(children=0) as server, receiver() as collector:
        url = f"http://127.0.0.1:{server.port}/"
        arguments = ("--gateway", "off", "--server-status", url, "--interval", "0.3", "--alarm", "off")
        with agent(tmp_path, "--collector", collector.where, *arguments):
            collector.take()
            server.do("server.close()")
            assert {collector.take().kind for _ in range(5)} == {"data"}


def test_an_alarm_between_two_reports_far_apart() -> None:
    """The alarm condition is true once four processes are running, and the quick check of run_queue detects this."""
    arguments = (*ALARMED, "3600", "--alarm", "run_queue>3")
    with receiver() as collector, agent_at_once(collector.where, *arguments):
        first = collector.take()
        burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(6)]
        try:
            alarm = first if first.kind == "alarm" else collector.until("alarm")
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()
    assert alarm.alarm.startswith("run_queue ")


@contextlib.contextmanager
def agent_at_once(where: str, *arguments: str) -> Iterator[None]:
    """Run an agent without the random offset, so that the first report is sent immediately."""
    code = "import random, sys; random.random = lambda: 0.0; from lbdns_agent.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "--name", "gandalf", "--collector", where, *arguments]
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.kill()


def test_no_alarm_when_switched_off(tmp_path: Path) -> None:
    with receiver() as collector, agent(tmp_path, "--collector", collector.where, "--interval", "0.1", *QUIET):
        assert {collector.take().kind for _ in range(5)} == {"data"}


def test_the_log_as_json(tmp_path: Path) -> None:
    with (
        receiver() as collector,
        agent(tmp_path, "--collector", collector.where, "--log-format", "json", *QUIET) as running,
    ):
        collector.take()
        assert running.stop() == 0
    lines = [json.loads(line) for line in running.log.splitlines()]
    assert lines[0]["message"].startswith("reporting as gandalf every 1 s to 127.0.0.1:")
    assert lines[-1]["message"] == "stopped"
