"""Checks that the agent reports correct metrics for a real Apache (prefork and event)."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lbdns_agent.agent_options import AgentOptions
from lbdns_agent.host_sampler import HostSample, HostSampler
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_agent.sensor import open_host
from lbdns_agent.webserver.status_page import parse_status_url
from lbdns_shared.report import WEB_SERVER_FAILED
from lbdns_tools.apache_process import RunningApache, apache
from tests.agent.agents import agent, receiver
from tests.agent.waiting import until
from tests.needs import needs, program

pytestmark = needs(programs=("apache2", "ab"))

BURN = """#!/bin/sh
# Uses about a third of a second of processor time, most of it in a child
python3 -c 'import time
while time.process_time() < 0.3: pass'
printf 'Content-Type: text/plain\\n\\nburned\\n'
"""


SETTLED = 20  # samples after which a server that was just started is as it will stay


class Beside:
    """A sampler that reads the metrics of a running Apache."""

    def __init__(self, httpd: RunningApache) -> None:
        self.site = httpd.base
        options = AgentOptions("gandalf", status=parse_status_url(httpd.status_url), gateway=None)
        self._sampler = HostSampler(open_host(options), SensorTasks())
        httpd.add_program("burn", BURN)

    def sample(self) -> HostSample:
        return self._sampler.sample(5.0, 60.0)

    def ab(self, *arguments: str, path: str = "index.html") -> None:
        command = [program("ab"), "-q", *arguments, f"{self.site}/{path}"]
        run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        assert "Failed requests:        0" in run.stdout
        assert "Non-2xx" not in run.stdout, run.stdout


@pytest.fixture(params=["prefork", "event"])
def beside(request: pytest.FixtureRequest) -> Iterator[Beside]:
    with apache(request.param) as httpd:
        yield Beside(httpd)


def test_requests_are_counted(beside: Beside) -> None:
    until(lambda: beside.sample().metrics["idle_workers"] > 0)  # Apache has just started
    first = beside.sample().metrics
    start = time.monotonic()
    beside.ab("-n", "200", "-c", "4")
    second: dict[str, float] = {}
    # Apache counts a request when its log is written, a moment after the client has its answer
    until(lambda: second.update(beside.sample().metrics) or second["requests_total"] >= first["requests_total"] + 200)
    made = second["requests_total"] - first["requests_total"]
    assert 201 <= made <= 201 + 200  # the agent's own questions are requests too, one a sample
    assert first["busy_workers"] >= 1, "the agent's own question keeps a worker busy"
    time.sleep(0.1)
    third = beside.sample().metrics
    span = time.monotonic() - start
    assert 0 < third["requests_per_s"] <= (third["requests_total"] - first["requests_total"]) / 0.05
    assert span > 0


def test_requests_per_second_is_the_rate_between_two_samples_not_apaches_mean(beside: Beside) -> None:
    until(lambda: "requests_per_s" in beside.sample().metrics)
    with timed() as first:
        before = beside.sample().metrics
    for _ in range(4):
        beside.ab("-n", "25", "-c", "1")
        time.sleep(0.1)
    with timed() as second:
        sample = beside.sample().metrics
    made = sample["requests_total"] - before["requests_total"]
    assert 100 <= made <= 101
    slowest, fastest = made / (second.end - first.begin), made / (second.begin - first.end)
    assert 0.85 * slowest <= sample["requests_per_s"] <= 1.15 * fastest
    time.sleep(0.5)
    with timed() as third:
        sample = beside.sample().metrics
    # Only the agent asked, and Apache may have counted one of its requests late
    slowest, fastest = 1 / (third.end - second.begin), 2 / (third.begin - second.end)
    assert 0.85 * slowest <= sample["requests_per_s"] <= 1.15 * fastest


@dataclass
class Span:
    begin: float
    end: float = 0.0


@contextlib.contextmanager
def timed() -> Iterator[Span]:
    """Yield a time span, whose end is set when the with block ends."""
    span = Span(time.monotonic())
    yield span
    span.end = time.monotonic()


@pytest.mark.parametrize("beside", ["prefork", pytest.param("event", marks=needs(root=True))], indirect=True)
def test_cpu_seconds_include_the_cgi_programs(beside: Beside) -> None:
    """Only a kernel clock that requires root includes the CPU time of CGI programs started by mod_cgid."""
    for _ in range(SETTLED):
        beside.sample()
        time.sleep(0.02)
    before = beside.sample().metrics["httpd_cpu_seconds"]
    beside.ab("-n", "4", "-c", "2", path="cgi-bin/burn")
    seen = [before]

    def counted() -> bool:
        seen.append(beside.sample().metrics["httpd_cpu_seconds"])
        return seen[-1] - before >= 1.1

    until(counted)
    assert seen == sorted(seen), "it fell"
    time.sleep(0.2)
    # Four programs that use 0.3 s each, and their start, which costs more on a busy machine; none is counted twice
    assert 1.1 <= beside.sample().metrics["httpd_cpu_seconds"] - before < 2.3


def test_a_cgi_program_counts_while_it_runs() -> None:
    with apache("prefork") as httpd:
        beside = Beside(httpd)
        httpd.add_program("long", BURN.replace("0.3", "20.0"))
        before = beside.sample().metrics["httpd_cpu_seconds"]
        command = [program("ab"), "-q", "-n", "1", f"{beside.site}/cgi-bin/long"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as asking:
            until(lambda: beside.sample().metrics["httpd_cpu_seconds"] - before > 0.5)
            assert asking.poll() is None, "it was counted only when it had ended"
            asking.kill()


def test_the_accept_queue_is_known(beside: Beside) -> None:
    beside.sample()
    until(lambda: beside.sample().metrics["listen_queue"] == 0.0)  # its children accept what came while they started


@pytest.mark.parametrize("mpm", ["prefork", "event"])
def test_without_extended_status_the_workers_are_known_and_the_requests_are_not(mpm: str) -> None:
    with apache(mpm, extended_status=False) as httpd:
        beside = Beside(httpd)
        until(lambda: beside.sample().metrics["idle_workers"] > 0)  # none is idle while its children start
        sample = beside.sample()
    assert "ExtendedStatus On" in sample.missing["requests_total"]
    assert "ExtendedStatus On" in sample.missing["requests_per_s"]


def test_another_apache_in_the_same_place_begins_anew() -> None:
    with apache("prefork") as httpd:
        beside = Beside(httpd)
        beside.ab("-n", "50", "-c", "2")
        until(lambda: beside.sample().metrics["requests_total"] >= 50)
    stopped = beside.sample()
    assert {"requests_total", "busy_workers", "listen_queue", "httpd_cpu_seconds"} <= set(stopped.missing)
    with apache("event", port=httpd.port):
        sample = beside.sample().metrics
        assert sample["requests_total"] < 50
        assert "requests_per_s" not in sample
        time.sleep(0.1)
        beside.sample()
        time.sleep(0.1)
        sample = beside.sample().metrics
        assert 0 <= sample["requests_per_s"] < 200
        assert sample["httpd_cpu_seconds"] < 5.0


@pytest.mark.parametrize("mpm", ["prefork", "event"])
def test_restarts_of_apache_are_no_failure_and_its_end_is_one(tmp_path: Path, mpm: str) -> None:
    with receiver() as collector:
        arguments = ("--collector", collector.where, "--interval", "0.5", "--gateway", "off", "--alarm", "load1>1e9")
        with apache(mpm) as httpd, agent(tmp_path, *arguments, "--server-status", httpd.status_url) as running:
            collector.until("data")
            for number in (signal.SIGUSR1, signal.SIGHUP) * 3:  # graceful, and at once
                before = generation(httpd)
                os.kill(int((httpd.content / "httpd.pid").read_text()), number)
                until(lambda: generation(httpd) > before)  # noqa: B023
                assert collector.take().kind == "data"
            assert running.lines(WEB_SERVER_FAILED) == 0
            os.kill(int((httpd.content / "httpd.pid").read_text()), signal.SIGTERM)
            assert collector.until("alarm").alarm == f"{WEB_SERVER_FAILED}: nothing listens on port {httpd.port}"


def generation(httpd: RunningApache) -> int:
    """Return how often Apache has been restarted, or -1 if it does not answer."""
    try:
        with urllib.request.urlopen(httpd.status_url, timeout=30) as response:
            match = re.search(r"ParentServerConfigGeneration: (\d+)", response.read().decode())
    except OSError:
        return -1
    return int(match[1]) if match else -1
