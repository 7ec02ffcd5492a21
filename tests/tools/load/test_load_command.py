"""Tests of the lbdns-load command with a small real server: output, files and exit status."""

from __future__ import annotations

import csv
import gzip
import io
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from lbdns.command_line.run_command import run
from lbdns.demo.webserver import DemoWebServer, listen
from lbdns_shared.endpoint import Endpoint
from lbdns_tools import __version__
from lbdns_tools.free_ports import free_port
from lbdns_tools.load.load_command import command
from tests.end_to_end.process import eventually

LIMIT_S = 120.0  # no command here takes more than a few seconds


class _Handler(BaseHTTPRequestHandler):
    seen: ClassVar[Counter[str]] = Counter()  # requests by path

    def do_GET(self) -> None:
        self.seen[self.path] += 1
        body = b"x" * 1000
        self.send_response(404 if self.path == "/none" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Suppress the server's log messages."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join(LIMIT_S)


def load(*arguments: str) -> tuple[int, str, str]:
    """Run lbdns-load in a separate process, because lbdns-load forks and the test process has threads."""
    done = subprocess.run(
        [sys.executable, "-m", "lbdns_tools.load", *arguments],
        check=False, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_a_sweep_of_clients_with_all_that_can_come_of_it(url: str, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("x.csv", "x.json", "x.png")]
    outputs = [word for option, path in zip(("--csv", "--json", "--plot"), files, strict=True)
               for word in (option, str(path))]  # fmt: skip
    status, out, err = load(
        url, "--clients", "1..3/2", "--requests", "30", "--repeat", "2", "--label", "mine", *outputs
    )
    assert (status, err) == (0, "")
    assert "clients" in out.splitlines()[1]
    assert f"plot: {files[2]}" in out
    rows = list(csv.DictReader(io.StringIO(files[0].read_text())))
    assert [(row["clients"], row["repetition"], row["label"], row["ok"]) for row in rows] == [
        ("1", "1", "mine", "30"), ("1", "2", "mine", "30"), ("3", "1", "mine", "30"), ("3", "2", "mine", "30"),
    ]  # fmt: skip
    document = json.loads(files[1].read_text())
    assert [point["clients"] for point in document["points"]] == [1, 3]
    assert all(abs(each["begun"] - time.time()) < LIMIT_S for point in document["points"] for each in point["runs"])
    assert files[2].read_bytes().startswith(b"\x89PNG")


def test_a_rate_on_standard_output(url: str) -> None:
    def is_kept() -> bool:
        """Return whether the measured rate is the desired one. A busy machine may delay some requests."""
        status, out, err = load(url, "--rate", "100", "--requests", "50", "--csv", "-", "--processes", "2")
        (row,) = csv.DictReader(io.StringIO(out))
        assert (status, err) == (0, "")
        assert (row["clients"], row["rate_per_s"], row["requests"], row["error_percent"]) == ("", "100", "50", "0")
        return bool(float(row["requests_per_s"]) == pytest.approx(100, rel=0.2))

    eventually(is_kept, "the rate is 100 requests/s", LIMIT_S)


def test_as_many_are_sent_by_three_processes_as_by_one(url: str) -> None:
    counts = set()
    for processes in ("1", "3"):
        _, out, _ = load(
            url, "--rate", "50", "--seconds", "1", "--spacing", "poisson", "--processes", processes, "--json", "-"
        )
        counts.add(json.loads(out)["points"][0]["runs"][0]["requests"])
    assert len(counts) == 1
    assert counts.pop() == pytest.approx(50, abs=25)


def test_thresholds_decide_how_it_ends(url: str) -> None:
    arguments = (url, "--clients", "2", "--requests", "20", "--quiet")
    assert load(*arguments, "--fail-if", "error_percent>1") == (0, "", "")
    status, out, err = load(*arguments, "--fail-if", "error_percent>1", "--fail-if", "p50>1us", "--repeat", "2")
    assert (status, out) == (1, "")
    assert [line.rpartition(": is")[0] for line in err.splitlines()] == [
        "failed: repetition 1: p50>1us", "failed: repetition 2: p50>1us",
    ]  # fmt: skip
    status, _, err = load(f"{url}none", "--clients", "2", "--requests", "20", "--quiet", "--fail-if", "4xx>19")
    assert (status, err) == (1, "failed: 4xx>19: is 20\n")


def test_phases(url: str, tmp_path: Path) -> None:
    path = tmp_path / "phases.toml"
    path.write_text("[[phase]]\nrate = 20\nrequests = 10\n[[phase]]\nbegin = 0.2\nclients = 2\nrequests = 10\n")
    status, out, _ = load(url, "--phases", str(path), "--json", "-")
    assert status == 0
    (point,) = json.loads(out)["points"]
    assert (point["label"], point["runs"][0]["ok"]) == ("phases.toml", 20)


def test_an_access_log_is_replayed_against_the_demos_web_server(tmp_path: Path) -> None:
    paths = ["/", "/a b", "/caf\xe9", "/"]
    log = tmp_path / "access.log.gz"
    lines = [f'a - - [28/Aug/1995:23:59:5{at} -0400] "GET {path} HTTP/1.0" 200 5\n' for at, path in enumerate(paths)]
    log.write_bytes(gzip.compress("".join([*lines, "\xff\n"]).encode("latin-1")))
    with listen(Endpoint("127.0.0.1", 0)) as listener:
        server = DemoWebServer("bilbo", [listener], workers=4)
        server.start()
        base = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        status, out, err = load(
            "--access-log", str(log), "--base", base, "--seconds", "2", "--max", "20", "--min", "10", "--json", "-"
        )
        server.stop()
    assert status == 0
    assert err.startswith(f"note: {log}: invalid lines skipped: 1; the first is line 5: ")
    (point,) = json.loads(out)["points"]
    # Two seconds of the log with two requests each: the rates are equal, so both are scaled to the highest
    assert (point["label"], point["rate_per_s"], point["runs"][0]["requests"]) == ("access.log.gz", None, 40)
    assert (point["runs"][0]["ok"], point["runs"][0]["errors"]["4xx"]) == (20, 20)  # the server has only the page /


def test_a_search(url: str, tmp_path: Path) -> None:
    arguments = ("--search", "rate", "--connections", "10,20", "--range", "50..100", "--max-latency", "p99:60s")
    status, out, _ = load(url, *arguments, "--min-achieved", "1", "--csv", str(tmp_path / "x.csv"))
    assert status == 0
    assert "failing: errors > 1 %, p99 > 60000 ms" in out
    rows = list(csv.DictReader(io.StringIO((tmp_path / "x.csv").read_text())))
    assert [(row["connections"], row["highest_rate_per_s"]) for row in rows] == [("10", "100"), ("20", "100")]


def test_ctrl_c_tells_what_was_measured_by_then(url: str, tmp_path: Path) -> None:
    address = f"{url}interrupted"
    arguments = [sys.executable, "-m", "lbdns_tools.load", address, "--rate", "50", "--seconds", "600", "--csv"]
    with subprocess.Popen([*arguments, str(tmp_path / "x.csv"), "--json", "-"], stdout=subprocess.PIPE) as process:
        try:
            eventually(lambda: _Handler.seen["/interrupted"] >= 50, "requests have arrived")
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
    assert process.returncode == 130
    (each,) = json.loads(out)["points"][0]["runs"]
    assert 0 < each["requests"] < 600 * 50
    assert 0 < each["requests_per_s"] < 65
    assert (tmp_path / "x.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "a target is required: specify a URL"),
        (("ftp://a/",), "URL: 'ftp://a/': the scheme ftp is not supported; use http:// or https://"),
        (("https://a/", "--ca-file", "/dev/null"), "--ca-file: /dev/null: the file contains no valid certificate"),
        (("http://a/", "--clients", "5..1/1"), "must not be less than the first"),
        (("http://a/", "--clients", "5", "--rate", "5"), "--clients and --rate cannot be combined"),
        (("http://a/", "--csv", "/none/x.csv"), "--csv: /none/x.csv: the directory /none does not exist"),
        (("http://a/", "--json", "/"), "--json: /: is a directory"),
        (("http://a/", "--plot", "x.gif"), "--plot: x.gif: the file name must end in one of"),
        (("http://a/", "--fail-if", "p99>5"), "requires a unit"),
        (("http://a/", "--phases", "/none/x.toml"), "/none/x.toml: cannot read the file"),
        (("--clint", "5"), "No such option"),
    ],
)
def test_bad_arguments(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    assert run(command, "lbdns-load", arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_nothing_listens() -> None:
    port = free_port()
    status, out, _ = load(f"http://127.0.0.1:{port}/", "--clients", "1", "--requests", "5", "--json", "-")
    (each,) = json.loads(out)["points"][0]["runs"]
    assert (status, each["requests"], each["ok"], each["errors"]["refused"]) == (1, 5, 0, 5)
    assert each["requests_per_s"] == 0


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, "lbdns-load", ["--help"]) == 0
    out = capsys.readouterr().out
    assert "lbdns-load http://best.hobbit:8080/ --resolver 127.0.0.1:5300" in out
    assert "Exit status: 0 on success, 1 if a threshold is violated" in out
    assert load("--version") == (0, f"lbdns-load {__version__}\n", "")
