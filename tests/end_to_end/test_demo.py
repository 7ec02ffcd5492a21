"""Tests of the whole ``lbdns demo``: starting it, sending queries, and stopping it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_tools.free_ports import free_ports
from tests.end_to_end.harness import Site, ask, best, dig
from tests.end_to_end.process import Program, alive, descendants, eventually, python, running
from tests.needs import needs

NAMES = {"bilbo", "frodo", "gandalf"}


class Demo:
    """A running demo on free ports."""

    def __init__(self, folder: Path) -> None:
        dns, report, http, self.web_port = free_ports(4)
        self.site = Site(folder, {}, dns_port=dns, report_port=report, http_port=http)
        self.command = python(
            "lbdns", "demo", "--dns-port", str(dns), "--report-port", str(report), "--http-port", str(http),
            "--web-port", str(self.web_port), "--interval", "0.2",
        )  # fmt: skip


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(tmp_path)


@pytest.fixture
def ready(demo: Demo, tmp_path: Path) -> Iterator[Program]:
    # Its temporary folder is ours, to see that it goes away
    with running(*demo.command, env={"TMPDIR": str(tmp_path)}) as program:
        program.until(lambda: "Ctrl-C stops the demo" in program.output, "the demo is ready")
        yield program


def usable(demo: Demo) -> set[str]:
    return {name for name, member in demo.site.members_by_name().items() if member["state"] == "usable"}


def busy_workers(demo: Demo, name: str) -> float:
    found: float = demo.site.members_by_name()[name]["metrics"].get("busy_workers", 0.0)
    return found


@needs(programs=("dig",))
def test_it_answers(demo: Demo, ready: Program) -> None:
    ready.until(lambda: usable(demo) == NAMES, "all three report")
    lines = dig(demo.site, "best.hobbit", "+noall", "+answer").split()
    assert lines[:4] == ["best.hobbit.", "0", "IN", "CNAME"]
    assert lines[5:8] == [lines[4], "0", "IN"]
    assert lines[9] in ("127.0.0.16", "127.0.0.17", "127.0.0.18")
    assert dig(demo.site, "-x", "127.0.0.16", "+short") == "bilbo.hobbit.\n"
    assert dig(demo.site, "+tcp", "gandalf.hobbit", "+short") == "127.0.0.18\n"


def test_it_ends_by_itself(demo: Demo) -> None:
    children = set[int]()
    with running(*demo.command, "--seconds", "3") as program:

        def has_ended() -> bool:
            children.update(descendants(program.pid))
            return not program.running

        eventually(has_ended, "it ends by itself")
        assert program.wait() == 0
        assert "Ctrl-C stops the demo" in program.output
        assert children
        assert program.errors == ""
        assert program.output.endswith("lbdns demo: stopping\n")
    assert not alive(children)


def test_what_it_says_can_be_tried(demo: Demo, ready: Program) -> None:
    assert f"dig @127.0.0.1 -p {demo.site.dns_port} best.hobbit" in ready.output
    assert f"http://127.0.0.1:{demo.site.http_port}/" in ready.output
    assert "lbdns" in demo.site.page("/")
    for address in ("127.0.0.16", "127.0.0.17", "127.0.0.18"):
        assert f"http://{address}:{demo.web_port}/" in ready.output
        with socket.create_connection((address, demo.web_port), timeout=60) as web:
            web.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert web.recv(100).startswith(b"HTTP/1.0 200")
    ready.until(lambda: usable(demo) == NAMES, "all three report")
    eventually(
        lambda: {best(demo.site, "round.robin.hobbit") for _ in range(3)} == NAMES, "round robin names all three"
    )
    config = ready.output.split("export LBDNS_CONFIG=")[1].split()[0]
    result = subprocess.run(
        python("lbdns", "status"), env={**os.environ, "LBDNS_CONFIG": config},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "gandalf" in result.stdout


def test_best_leaves_a_server_that_has_something_to_do(demo: Demo, ready: Program) -> None:
    """As the demo suggests, the test sends work requests to the member currently selected for the name best."""
    ready.until(lambda: usable(demo) == NAMES, "all three report")
    address = str(ask(demo.site, "best.hobbit").answer[1][0])
    busy = {"127.0.0.16": "bilbo", "127.0.0.17": "frodo", "127.0.0.18": "gandalf"}[address]
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            web = stack.enter_context(socket.create_connection((address, demo.web_port), timeout=30))
            # None of them is done before the end: that many at once would count as a good sign, requests/s
            web.sendall(b"GET /work?ms=10000 HTTP/1.0\r\n\r\n")
        eventually(lambda: busy_workers(demo, busy) >= 8, f"{busy} says it is busy")

        def left() -> bool:
            scores = {name: member["score"] for name, member in demo.site.members_by_name().items()}
            return best(demo.site) != busy and scores[busy] < max(scores.values())

        # All three share one machine: whose report saw it idle last decides until the next one
        eventually(left, f"{busy} has not the highest score, and best is another member", step=0.3)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_it_well_and_leave_nothing_behind(
    demo: Demo, ready: Program, tmp_path: Path, number: signal.Signals
) -> None:
    children = descendants(ready.pid)
    assert len(children) == 7
    assert [path.name.startswith("lbdns-demo-") for path in tmp_path.iterdir()] == [True]
    assert ready.stop(number) == 0
    assert ready.errors == ""
    assert not alive(children)
    assert list(tmp_path.iterdir()) == []


def test_killed_it_takes_its_children_along(demo: Demo, ready: Program) -> None:
    children = descendants(ready.pid)
    ready.stop(signal.SIGKILL)
    eventually(lambda: not alive(children), "its children are gone")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("lbdns", "serve"), "the DNS server"),
        (("lbdns_agent", "--name", "frodo"), "the agent of frodo"),
        (("lbdns.demo.webserver", "--name", "bilbo"), "web server bilbo"),
    ],
)
def test_a_part_that_dies_ends_it_and_is_named(demo: Demo, ready: Program, words: tuple[str, ...], what: str) -> None:
    children = descendants(ready.pid)
    (victim,) = [pid for pid in children if set(words) <= set(Path(f"/proc/{pid}/cmdline").read_text().split("\0"))]
    os.kill(victim, signal.SIGKILL)
    assert ready.wait() == 1
    assert ready.errors == f"lbdns demo: {what} was killed by SIGKILL, so the demo stops\n"
    assert not alive(children)


def test_a_taken_port_is_said_before_anything_starts(demo: Demo, tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", demo.site.dns_port))
        with running(*demo.command, env={"TMPDIR": str(tmp_path)}) as program:
            assert program.wait() == 1
            assert program.output == ""
            assert program.errors == (
                f"127.0.0.1:{demo.site.dns_port} (DNS over UDP): is in use; "
                "stop the program that uses this port, or choose another port with --dns-port\n"
            )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--dns-port", "0"], ["--seconds", "-1"], ["--interval", "0"], ["more"]])
def test_bad_arguments(arguments: list[str]) -> None:
    with running(*python("lbdns", "demo", *arguments)) as program:
        assert program.wait() == 2
        assert "Usage: lbdns demo" in program.errors
