"""Tests with readers of standard error that stop or go away: no query is lost, and every program still ends."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import dns.message
import dns.query
import pytest

from tests.end_to_end.harness import FakeAgent, Site, answers, ask, new_site
from tests.end_to_end.process import PATIENCE, descendants, eventually, python

MEMBERS = {"bilbo": ["127.0.0.16"], "frodo": ["127.0.0.17"], "gandalf": ["127.0.0.18"]}
ROUNDS = 60
#: s to stop. The log may take one of these; the rest is for slow test machines
STOP = 60.0


class StalledLog:
    """A pipe that is full and that nobody reads, for the standard error of programs."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(self.write_end, False)
        self.filler = os.write(self.write_end, b"x" * 4095 + b"\n")
        with pytest.raises(BlockingIOError):
            os.write(self.write_end, b"x" * 4096)
        os.set_blocking(self.write_end, True)

    def read(self) -> str:
        """Read until every program has closed the pipe, and return what programs wrote."""
        os.close(self.write_end)
        self.write_end = -1
        text = b""
        while piece := os.read(self.read_end, 65536):
            text += piece
        return text[self.filler :].decode()

    def close(self) -> None:
        for descriptor in (self.read_end, self.write_end):
            if descriptor >= 0:
                os.close(descriptor)


@pytest.fixture
def log() -> Iterator[StalledLog]:
    log = StalledLog()
    yield log
    log.close()


@contextmanager
def started(command: Sequence[str], errors: int | None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors, start_new_session=True)
    try:
        yield process
    finally:
        for pid in (*descendants(process.pid), process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()


def new_server(folder: Path, workers: int) -> tuple[Site, tuple[str, ...]]:
    """Write a farm whose zone may be transferred, and return the command that serves it."""
    site = new_site(folder, MEMBERS)
    site.write(server=f"workers = {workers}")
    text = site.config.read_text()
    site.config.write_text(text.replace('file = "hobbit.zone"\n', 'file = "hobbit.zone"\ntransfer = ["127.0.0.1"]\n'))
    return site, python("lbdns", "serve", "-c", str(site.config), "--log-level", "debug")


def use(site: Site, server: subprocess.Popen[bytes]) -> None:
    """Query ``site`` many times, and meanwhile cause log lines in the main process and in the workers."""
    agent = FakeAgent(site, "frodo")
    for number in range(ROUNDS):
        agent.send("alarm" if number % 2 else "data", alarm="too hot" if number % 2 else "")
        agent.send_bytes(b"no report")
        if not number % 10:
            server.send_signal(signal.SIGHUP)
        transfer = dns.message.make_query("hobbit", "AXFR")
        dns.query.tcp(transfer, site.address, PATIENCE, site.dns_port)  # the worker logs it
        for _ in range(10):
            assert ask(site, "best.hobbit").answer  # raises an exception after some seconds
    agent.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_no_query_is_lost_while_nobody_reads_the_log(tmp_path: Path, log: StalledLog, workers: int) -> None:
    site, command = new_server(tmp_path, workers)
    with started(command, log.write_end) as server:
        eventually(lambda: answers(site), "it answers although nobody has read a line")
        use(site, server)
        assert site.page("/healthz")
        server.send_signal(signal.SIGTERM)
        assert server.wait(STOP) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_all_lines_arrive_when_they_are_read_again(tmp_path: Path, log: StalledLog, workers: int) -> None:
    site, command = new_server(tmp_path, workers)
    with started(command, log.write_end) as server:
        eventually(lambda: answers(site), "it answers although nobody has read a line")
        use(site, server)
        server.send_signal(signal.SIGTERM)
        text = log.read()
        assert server.wait(STOP) == 0
    for part in ("answering DNS on", "ready: ", "frodo is alarm", "transferred to", "reload: done"):
        assert part in text
    assert "lbdns: stopped\n" in text  # only counts of similar lines may follow
    assert "lost" not in text
    torn = [line for line in text.splitlines() if line[:2] != "20"]
    assert torn == []


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("how", ["no reader", "closed"])
def test_a_standard_error_that_cannot_be_written(tmp_path: Path, log: StalledLog, workers: int, how: str) -> None:
    site, command = new_server(tmp_path, workers)
    if how == "closed":
        command = ("sh", "-c", 'exec "$@" 2>&-', "sh", *command)
    os.close(log.read_end)
    log.read_end = -1
    with started(command, log.write_end) as server:
        eventually(lambda: answers(site), "it answers without a log")
        use(site, server)
        if how == "closed":
            assert os.readlink(f"/proc/{server.pid}/fd/2") == os.devnull, "no other file may get the lines"
        server.send_signal(signal.SIGTERM)
        assert server.wait(STOP) == 0


def test_the_reader_goes_away_while_the_server_runs(tmp_path: Path, log: StalledLog) -> None:
    site, command = new_server(tmp_path, 2)
    with started(command, log.write_end) as server:
        eventually(lambda: answers(site), "it answers")
        os.close(log.read_end)
        log.read_end = -1
        use(site, server)
        server.send_signal(signal.SIGTERM)
        assert server.wait(STOP) == 0


@pytest.mark.parametrize("stalled", [True, False])
def test_a_start_that_fails(tmp_path: Path, log: StalledLog, stalled: bool) -> None:
    """The exit status is right, and the reason is logged if anybody reads it."""
    site, command = new_server(tmp_path, 1)
    site.config.write_text(site.config.read_text() + "nonsense\n")
    with started(command, log.write_end) as server:
        text = "" if stalled else log.read()
        assert server.wait(STOP) == 2
    assert stalled or "lbdns.toml:" in text


def test_the_collector_and_the_agent(tmp_path: Path, log: StalledLog) -> None:
    site, _ = new_server(tmp_path, 1)
    options = ("--collector", site.at(site.report_port), "--name", "frodo", "--interval", "0.1", "--gateway", "off")
    agent_key = str(site.agent_key_file("frodo"))
    agent = python("lbdns_agent", *options, "--key-file", agent_key, "--server-status", "off", "--log-level", "debug")
    collector = python("lbdns_collector", "-c", str(site.config), "--log-level", "debug")
    with started(collector, log.write_end) as collecting, started(agent, log.write_end) as reporting:

        def accepted() -> bool:
            try:
                return site.metric("lbdns_reports_total", result="accepted") > 0
            except OSError:
                return False

        eventually(accepted, "the collector accepts the agent's reports")
        for process in (collecting, reporting):
            process.send_signal(signal.SIGHUP)
        before = site.metric("lbdns_reports_total", result="accepted")
        eventually(lambda: site.metric("lbdns_reports_total", result="accepted") > before + 5, "they continue")
        for process in (reporting, collecting):
            process.send_signal(signal.SIGTERM)
            assert process.wait(STOP) == 0


def test_a_stalled_log_hardly_delays_the_end(tmp_path: Path, log: StalledLog) -> None:
    """Compared with a log that is read, in the same run. A busy machine may delay an end, but not three in a row."""
    seconds: dict[int, list[float]] = {}
    for errors in (subprocess.DEVNULL, log.write_end):
        for attempt in range(3):
            folder = tmp_path / f"{errors}-{attempt}"
            folder.mkdir()
            site, command = new_server(folder, 2)
            with started(command, errors) as server:
                eventually(lambda site=site: answers(site), "it answers")  # type: ignore[misc]
                begin = time.monotonic()
                server.send_signal(signal.SIGTERM)
                assert server.wait(STOP) == 0
                seconds.setdefault(errors, []).append(time.monotonic() - begin)
    print(seconds)
    assert min(seconds[log.write_end]) < 2 * min(seconds[subprocess.DEVNULL]) + 5


@pytest.mark.parametrize("workers", [1, 2])
def test_lost_lines_are_counted(tmp_path: Path, workers: int) -> None:
    """Writing to /dev/full fails as on a full disk."""
    site, command = new_server(tmp_path, workers)
    with Path("/dev/full").open("w") as full, started(command, full.fileno()) as server:
        eventually(lambda: answers(site), "it answers")
        use(site, server)
        eventually(lambda: site.metric("lbdns_log_lines_lost_total") > 10, "lost lines are counted")
