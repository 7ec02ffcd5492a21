"""Checks that lbdns-calibrate computes a score on a real farm, and then restores the configuration."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lbdns_tools.free_ports import free_ports
from tests.end_to_end.harness import Site
from tests.end_to_end.process import alive, descendants, eventually, python, running

#: Clients that each look the name up and fetch a page from whom they were told, again and again, for some seconds
LOAD = """\
import sys, threading, time, urllib.request
import dns.message, dns.query
dns_port, web_port, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
end = time.monotonic() + seconds
def client():
    while time.monotonic() < end:
        answer = dns.query.udp(dns.message.make_query("best.hobbit", "A"), "127.0.0.1", 10, dns_port)
        address = answer.answer[1][0].address
        urllib.request.urlopen(f"http://{address}:{web_port}/work?ms=2", timeout=60).read()
clients = [threading.Thread(target=client) for _ in range(3)]
for thread in clients:
    thread.start()
for thread in clients:
    thread.join()
"""


class Demo:
    """A demo on free ports that keeps its files in ``folder``."""

    def __init__(self, folder: Path) -> None:
        dns, report, http, self.web_port = free_ports(4)
        self.folder = folder
        self.site = Site(folder, {}, dns_port=dns, report_port=report, http_port=http)
        self.command = python(
            "lbdns", "demo", "--dns-port", str(dns), "--report-port", str(report), "--http-port", str(http),
            "--web-port", str(self.web_port), "--interval", "0.2",
        )  # fmt: skip
        self.load = folder / "load.py"
        self.load.write_text(LOAD)

    @property
    def config(self) -> Path:
        return next(self.folder.glob("lbdns-demo-*/lbdns.toml"))

    def policies(self) -> dict[str, str]:
        found: dict[str, str] = self.site.status()["pools"][0]["policies"]
        return found

    def requests(self) -> float:
        """Wait until all members report their request counts, and return the total."""
        found: list[float] = []

        def told() -> bool:
            metrics = [member["metrics"] for member in self.site.members_by_name().values()]
            found[:] = [m["requests_total"] for m in metrics if "requests_total" in m]
            return len(found) == len(metrics)

        eventually(told, "all count their requests")
        return sum(found)

    def calibrate(self, seconds: float, *more: str) -> tuple[str, ...]:
        load = " ".join((*python("x")[:1], str(self.load), str(self.site.dns_port), str(self.web_port), str(seconds)))
        return python("lbdns_tools.calibrate", "-c", str(self.config), "--load-command", load, "--settle", "0.4", *more)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder = tmp_path_factory.mktemp("demo")
    demo = Demo(folder)
    with running(*demo.command, env={"TMPDIR": str(folder)}) as program:
        program.until(lambda: "Ctrl-C stops the demo" in program.output, "the demo is ready")
        program.until(
            lambda: all("requests_per_s" in m["metrics"] for m in demo.site.members_by_name().values()), "all report"
        )
        yield demo


@contextlib.contextmanager
def unchanged(demo: Demo) -> Iterator[None]:
    """Check on exit that the server's configuration file and policies are unchanged."""
    before, policies = demo.config.read_bytes(), demo.policies()
    yield
    assert demo.config.read_bytes() == before
    assert demo.policies() == policies
    assert [path.name for path in demo.config.parent.glob("lbdns.toml*")] == ["lbdns.toml"]


def test_it_finds_a_score_on_a_live_farm(demo: Demo) -> None:
    # Not cpu_idle: on a machine that is busy with other tests there may be nothing of it
    arguments = ("--metric", "busy_workers", "--metric", "idle_workers", "--rounds", "1", "--method", "1999", "--json")
    served, seen = demo.requests(), set[str]()
    with unchanged(demo), running(*demo.calibrate(0.7, *arguments)) as program:

        def all_tried() -> bool:
            seen.add(demo.policies()["best"])
            return {"round_robin", "best_score"} <= seen

        program.until(all_tried, "the server chooses by the base line, and by a score")
        assert program.wait(60) == 0, program.errors
        found: dict[str, Any] = json.loads(program.output)
    assert set(found["terms"]) == {"busy_workers", "idle_workers"}
    assert sum(term["weight"] for term in found["terms"].values()) == pytest.approx(100.0)
    # What it believes that the members served, they did
    throughputs = [m["throughput_per_s"] for m in found["metrics"]] + [c["throughput_per_s"] for c in found["compared"]]
    assert all(throughput > 1 for throughput in throughputs)
    assert 0.7 * sum(throughputs) < demo.requests() - served


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_a_trial_restores_the_configuration(demo: Demo, number: signal.Signals) -> None:
    with unchanged(demo), running(*demo.calibrate(30.0, "--metric", "busy_workers")) as program:
        program.until(lambda: demo.policies()["best"] != "best", "a trial")
        program.until(lambda: descendants(program.pid), "the load runs")
        load = descendants(program.pid)
        assert program.stop(number) == 1
        assert f"{number.name}: stopped" in program.errors
        assert "Traceback" not in program.errors
        eventually(lambda: not alive(load), "the load has ended")


def test_a_failed_load_command_ends_the_calibration(demo: Demo) -> None:
    command = python("lbdns_tools.calibrate", "-c", str(demo.config), "--load-command", "false", "--settle", "0")
    with unchanged(demo), running(*command) as program:
        assert program.wait() == 1
        assert "the load command false failed with exit status 1" in program.errors


def test_an_empty_load_command_is_a_bad_argument(demo: Demo) -> None:
    command = python("lbdns_tools.calibrate", "-c", str(demo.config), "--load-command", "no-such-x", "--settle", "0")
    with unchanged(demo), running(*command) as program:
        assert program.wait() == 2
        assert "--load-command: no-such-x: No such file" in program.errors


def test_a_killed_calibration_leaves_a_copy(demo: Demo) -> None:
    before = demo.config.read_bytes()
    copy = demo.config.with_name("lbdns.toml.before-calibration")
    with running(*demo.calibrate(30.0, "--metric", "busy_workers")) as program:
        program.until(lambda: demo.policies()["best"] != "best", "a trial")
        program.until(lambda: descendants(program.pid), "the load runs")
        load = descendants(program.pid)
        program.stop(signal.SIGKILL)
    for pid in alive(load):
        os.kill(pid, signal.SIGKILL)
    assert copy.read_bytes() == before
    with running(*demo.calibrate(1.0)) as program:
        assert program.wait() == 2
        assert f"mv {copy} {demo.config}" in program.errors
    copy.replace(demo.config)
    with running(*python("lbdns", "reload", "-c", str(demo.config))) as program:
        assert program.wait() == 0
    assert demo.policies()["best"] == "best"
