"""Tests of the command line: valid and invalid arguments, and one sample as a table or as JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lbdns_agent import cli
from lbdns_agent.agent_options import AgentOptions
from lbdns_agent.alarm_conditions import AlarmCondition
from lbdns_agent.configuration.config_file import merge
from lbdns_shared import __version__
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.metric_catalogue import CATALOGUE, EXTRA_METRICS, STANDARD_METRICS
from tests.agent.waiting import until
from tests.agent.web import answer, counting, hanging, web_server


def options(*arguments: str) -> AgentOptions:
    parser = cli.build_parser()
    return cli.read_options(*merge(parser, arguments, Path("/nonexistent")))


def test_the_defaults() -> None:
    found = options("--collector", "ns1.example.net", "--name", "Gandalf")
    assert found.collectors == (Endpoint("ns1.example.net", 7777),)
    assert (found.name, found.interval, found.gateway, found.cgroup, found.key_file) == (
        "gandalf", 1.0, "auto", "auto", None,
    )  # fmt: skip
    assert str(found.status) == "http://127.0.0.1/server-status?auto"
    assert found.alarms == (
        AlarmCondition("listen_queue", ">", 256),
        AlarmCondition("mem_available", "<", 2),
        AlarmCondition("run_queue", ">", 64, per_cpu=True),
    )


def test_everything_else() -> None:
    found = options(
        "--collector", "192.0.2.1:1", "--collector", "[2001:db8::1]", "--collector", "192.0.2.1:1",
        "--interval", "0.1", "--gateway", "off", "--server-status", "off", "--key-file", "/k", "--cgroup", "/web",
        "--alarm", "run_queue>5", "--alarm", "cpu_idle<1", "--status-url", "http://ns1:8053", "--status-url", "http://ns2/",
    )  # fmt: skip
    assert [str(url) for url in found.collector_urls] == ["http://ns1:8053", "http://ns2"]
    assert found.collectors == (Endpoint("192.0.2.1", 1), Endpoint("2001:db8::1", 7777))
    assert (found.interval, found.gateway, found.status, found.key_file, found.cgroup) == (
        0.1, None, None, Path("/k"), "/web",
    )  # fmt: skip
    assert found.alarms == (AlarmCondition("run_queue", ">", 5), AlarmCondition("cpu_idle", "<", 1))
    assert options("--once", "--alarm", "off").alarms == ()
    assert options("--once", "--metrics", "all", "--alarm", "load5>9").alarms == (AlarmCondition("load5", ">", 9),)


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("7778", Endpoint("", 7778)),
        ("192.0.2.1:7778", Endpoint("192.0.2.1", 7778)),
        ("[::1]:7778", Endpoint("::1", 7778)),
    ],
)
def test_agent_checks_need_no_collector(text: str, endpoint: Endpoint) -> None:
    found = options("--agent-check", text, "--agent-check-file", "/run/order")
    assert (found.agent_check, found.agent_check_file, found.collectors) == (endpoint, Path("/run/order"), ())
    assert options("--collector", "ns1").agent_check is None


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("5555", Endpoint("127.0.0.1", 5555)),
        ("192.0.2.1:5555", Endpoint("192.0.2.1", 5555)),
        ("[::]:5555", Endpoint("::", 5555)),
    ],
)
def test_the_text_page_needs_no_collector_and_is_private_by_default(text: str, endpoint: Endpoint) -> None:
    assert options("--serve", text).serve == endpoint
    assert options("--collector", "ns1").serve is None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--agent-check", "0"], "must be PORT or ADDRESS:PORT, such as 7778 or 192.0.2.1:7778, not '0'"),
        (["--agent-check", "65536"], "must be PORT or ADDRESS:PORT"),
        (["--agent-check", "localhost:7778"], "must be PORT or ADDRESS:PORT"),
        (["--agent-check", "192.0.2.1"], "must be PORT or ADDRESS:PORT"),
        (["--serve", "localhost:5555"], "argument --serve: must be PORT or ADDRESS:PORT"),
        (["--serve", "192.0.2.1:0"], "argument --serve: must be PORT or ADDRESS:PORT"),
        (["--collector", "ns1", "--agent-check-file", "/f"], "--agent-check-file needs --agent-check"),
        (["--collector", "ns1", "--alarm", "load5>9"], "argument --alarm: load5 is measured only with --metrics all"),
        (["--collector", "ns1", "--metrics", "load5"], "invalid choice: 'load5'"),
        (["--collector", "ns1", "--bus-password-file", "/f"], "--bus-password-file needs --bus"),
        (["--collector", "ns1", "--bus-nkey", "/f"], "--bus-nkey needs --bus"),
        (
            ["--bus", "nats://a@ns1", "--key-file", "/k", "--bus-nkey", "/f"],
            "--bus-nkey can't be combined with --bus-password-file or credentials in the URL of --bus",
        ),
        (
            ["--bus", "nats://ns1", "--key-file", "/k", "--bus-nkey", "/f", "--bus-password-file", "/p"],
            "--bus-nkey can't be combined with --bus-password-file",
        ),
        (["--collector", "ns1", "--bus-tls-ca", "/f"], "--bus-tls-ca needs --bus"),
        (["--bus", "nats://ns1"], "--bus needs --key-file"),
        (["--bus", "ns1"], "'ns1' is not the URL of a NATS server"),
        (
            ["--bus", "nats://a:b@ns1", "--key-file", "/k", "--bus-password-file", "/f"],
            "--bus-password-file can't be combined with a password",
        ),
        ([], "use --agent-check PORT to answer HAProxy"),
        ([], "add one with --collector HOST[:PORT]"),
        (["--collector", "host:port"], "the port must be a number from 0 to 65535, not 'port'"),
        (["--collector", ""], "is not a HOST:PORT"),
        (["--once", "--interval", "0"], "must be a number of seconds from 0.1 to 3600"),
        (["--once", "--interval", "7200"], "must be a number of seconds from 0.1 to 3600"),
        (["--once", "--gateway", "router"], "or an address such as 192.0.2.1"),
        (["--once", "--server-status", "127.0.0.1"], "is not the URL of a status page"),
        (["--once", "--status-url", "ns1:8053"], "is not the URL of a collector's HTTP interface"),
        (["--once", "--name", "a b"], "not a valid host name"),
        (["--once", "--alarm", "run_queu>5"], "Perhaps you meant 'run_queue'?"),
        (["--once", "--alarm", "off", "--alarm", "run_queue>5"], "can't be combined with alarm conditions"),
        (["--json", "--collector", "x"], "--json needs --once"),
        (["--once", "--log-level", "loud"], "invalid choice: 'loud'"),
        (["--once", "--unknown"], "unrecognized arguments: --unknown"),
        (["--once", "--cgroup", "/no/such/group"], "there is no such group"),
        (["--collector", "127.0.0.1", "--key-file", "/nonexistent"], "/nonexistent: cannot read the key file"),
    ],
)
def test_what_is_refused(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    shown = capsys.readouterr()
    assert error in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def test_help_has_an_example_and_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "lbdns-agent --collector ns1.example.net" in text
    for option in ("collector", "interval", "gateway", "server-status", "name", "key-file", "cgroup", "once", "json"):
        assert f"--{option}" in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"lbdns-agent {__version__}\n"


def once(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lbdns_agent", "--once", "--name", "gandalf", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_one_sample_as_json() -> None:
    sample: dict[str, Any] = {}
    start = end = 0.0

    def is_complete() -> bool:
        """Take a sample. On a busy machine, the page may come later than a sample waits for it (0.4 s)."""
        nonlocal start, end
        with web_server(counting()) as url:
            start = time.time()
            run = once("--json", "--server-status", url, "--gateway", "off", "--interval", "0.4")
            end = time.time()
        assert (run.returncode, run.stderr) == (0, "")
        sample.update(json.loads(run.stdout))
        return {"requests_per_s", "cpu_idle"} <= set(sample["metrics"])

    until(is_complete)
    assert list(sample) == ["host", "time", "interval", "span", "web_server", "metrics", "unavailable"]
    assert (sample["host"], sample["interval"]) == ("gandalf", 0.4)
    assert start <= sample["time"] <= end
    assert 0.4 <= sample["span"] <= end - start
    metrics = sample["metrics"]
    assert set(metrics) | set(sample["unavailable"]) == set(STANDARD_METRICS)
    assert set(metrics).isdisjoint(sample["unavailable"])
    assert sample["unavailable"]["gateway_ping"] == "switched off by --gateway off"
    assert all(isinstance(value, float) for value in metrics.values())
    assert (metrics["requests_total"], metrics["busy_workers"], metrics["idle_workers"]) == (2.0, 2.0, 8.0)
    # One request between two readings of the page; a busy machine separates them by more or less than the interval
    assert metrics["requests_per_s"] >= 1 / (end - start)
    assert metrics["listen_queue"] == 0.0
    assert metrics["httpd_cpu_seconds"] > 0.0
    assert {"cpu_idle", "cpu_steal", "scan_rate", "net_rx", "net_tx", "run_queue", "load1", "cpu_count"} <= set(metrics)


def test_one_sample_of_all_metrics() -> None:
    def is_complete() -> bool:
        """Take a sample. Between two readings that a busy machine makes in quick succession, no CPU time passes."""
        run = once("--json", "--metrics", "all", "--server-status", "off", "--gateway", "off")
        assert (run.returncode, run.stderr) == (0, "")
        sample = json.loads(run.stdout)
        assert set(sample["metrics"]) | set(sample["unavailable"]) == set(CATALOGUE)
        return set(EXTRA_METRICS) <= set(sample["metrics"])

    until(is_complete)


def test_one_sample_at_the_default_interval_is_quick_even_when_the_web_server_hangs() -> None:
    def is_quick() -> bool:
        """Take a sample. A busy machine may delay some of them."""
        start = time.monotonic()
        run = once("--json", "--server-status", url, "--gateway", "off")
        elapsed = time.monotonic() - start
        sample = json.loads(run.stdout)
        assert sample["unavailable"]["busy_workers"] == "server-status: no response in time"
        return bool("cpu_idle" in sample["metrics"] and elapsed < 10.0 and sample["span"] < 1.0)

    with web_server(hanging) as url:
        until(is_quick)


def test_one_sample_as_a_table() -> None:
    page = b"BusyWorkers: 3\nIdleWorkers: 7\n"
    rows: dict[str, list[str]] = {}

    def has_the_page() -> bool:
        """Take a sample. On a busy machine, the page may come later than a sample waits for it (0.4 s)."""
        run = once("--server-status", url, "--gateway", "off")
        assert (run.returncode, run.stderr) == (0, "")
        first, *lines = run.stdout.splitlines()
        assert re.match(r"gandalf, measured over \d+\.\d\d s; ", first)
        assert [line.split()[0] for line in lines] == list(STANDARD_METRICS)
        rows.update({line.split()[0]: line.split(None, 2)[1:] for line in lines})
        return rows["idle_workers"][0] != "-"

    with web_server(lambda connection, request: connection.sendall(answer(page))) as url:
        until(has_the_page)
    assert rows["idle_workers"] == ["7", "workers"]
    assert rows["requests_total"] == ["-", "the status page has no 'Total Accesses'; set 'ExtendedStatus On'"]


def test_the_host_name_that_is_no_good_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "default_name", lambda: "under the hill")
    assert cli.main(["--once"]) == 2
    assert "set a host name with --name" in capsys.readouterr().err


@pytest.mark.parametrize(
    "module", ["asyncio", "aiohttp", "http.client", "urllib.request", "email", "psutil", "ssl",
               "ctypes", "multiprocessing", "lbdns.config", "dns"],
)  # fmt: skip
def test_nothing_heavy_is_loaded(module: str) -> None:
    code = f"import sys, lbdns_agent.cli; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["--once"], 1), (["--once", "--json"], 1), (["--help"], None), (["record", "--help"], None)],
)
def test_a_reader_that_has_gone_is_no_traceback(arguments: list[str], status: int | None) -> None:
    """As in ``lbdns-agent --once | head -1``. Whether argparse notices it depends on the version of Python."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with open(write_end, "wb") as pipe:
        command = [sys.executable, "-m", "lbdns_agent", *arguments]
        if arguments[0] == "--once":
            command += ["--gateway", "off", "--server-status", "off"]
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode in ((0, 1) if status is None else (status,))
