"""Tests of ``lbdns status`` with small real HTTP servers."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lbdns.cli import lbdns
from lbdns.command_line.run_command import run
from lbdns.commands.status import print_status
from tests.client.test_server_location import configuration


def member(name: str, state: str = "usable", **changes: Any) -> dict[str, Any]:
    return {
        "name": name, "addresses": ["192.0.2.1"], "state": state, "score": 66, "age_s": 0.4,
        "answers": 10, "share": 0.25, "metrics": {"cpu_idle": 42.5, "run_queue": 3.0}, **changes,
    }  # fmt: skip


STATUS = {
    "pools": [
        {
            "name": "web", "zone": "hobbit", "policies": {"best": "best", "round.robin": "round_robin"},
            "backup": None, "sites": [], "orders": [], "fail_open": False, "fail_open_reason": "",
            "members": [member("gandalf"), member("frodo", "unknown", score=None, age_s=None, share=0.0, metrics={})],
        }
    ],
    "server": {"version": "1.2.3", "uptime_s": 3700.5, "queries": 12, "workers": 1},
}  # fmt: skip


class Answering:
    """A web server that sends the same answer to all requests."""

    def __init__(self, status: int, body: bytes) -> None:
        self.paths: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.paths.append(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def answering() -> Iterator[Any]:
    servers: list[Answering] = []

    def start(status: int = 200, body: bytes = json.dumps(STATUS).encode()) -> Answering:
        servers.append(Answering(status, body))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def status(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    exit_status = run(lbdns, "lbdns", ["status", *arguments])
    captured = capsys.readouterr()
    return exit_status, captured.out, captured.err


def test_a_table(answering: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1/")  # must not be asked
    server = answering()
    exit_status, out, err = status(capsys, "--url", server.url)
    assert (exit_status, err) == (0, "")
    assert server.paths == ["/api/v1/status"]
    assert out.startswith("lbdns 1.2.3, up 1h1min, 12 queries, 1 worker\n")
    lines = [line.split() for line in out.splitlines()]
    assert ["gandalf", "usable", "66", "0.4", "25%", "-", "42.5", "3", "-", "-", "-"] in lines
    assert ["frodo", "unknown", "-", "-", "0%", "-", "-", "-", "-", "-", "-"] in lines


def test_a_full_member_is_usable_but_not_like_the_others() -> None:
    members = [member("gandalf", score=0, score_parts={"cpu_idle": 0.0}), member("frodo")]
    lines = shown({**STATUS, "pools": [{**STATUS["pools"][0], "members": members}]})  # type: ignore[index]
    assert lines[2] == "pool web: 2 of 2 members usable; 1 full"
    assert [line.split()[1] for line in lines if line.startswith(("gandalf ", "frodo "))] == ["full", "usable"]
    assert lines[-1] == "gandalf: full: its score is 0"


def test_a_pool_in_which_every_usable_member_is_full_needs_servers() -> None:
    full = {"score": 0, "score_parts": {"cpu_idle": 0.0}}
    members = [member("gandalf", **full), member("frodo", **full), member("bilbo", state="drained")]
    lines = shown({**STATUS, "pools": [{**STATUS["pools"][0], "members": members}]})  # type: ignore[index]
    assert lines[2].endswith("2 full, 1 drained; all full: add servers")


@pytest.mark.parametrize(
    ("plane", "lines"),
    [
        ({"plane": "native", "plane_reason": ""}, ["lbdns 1.2.3, up 1h1min, 12 queries, 1 worker, native plane", ""]),
        (
            {"plane": "python", "plane_reason": "the native extension is not installed"},
            ["lbdns 1.2.3, up 1h1min, 12 queries, 1 worker", "Python plane: the native extension is not installed", ""],
        ),
        ({"plane": "", "plane_reason": ""}, ["lbdns 1.2.3, up 1h1min, 12 queries, 1 worker", ""]),
    ],
)
def test_the_plane_that_answers(plane: dict[str, str], lines: list[str]) -> None:
    assert shown({**STATUS, "server": {**STATUS["server"], **plane}})[: len(lines)] == lines  # type: ignore[dict-item]


def test_problems_stand_above_the_table_and_other_notes_below() -> None:
    guarded = [member("gandalf", guard="quarantined: it fails, for 12 s"), member("frodo", guard="ramp 40%"),
               member("bilbo", guard=""), member("sam")]  # fmt: skip
    lines = shown({**STATUS, "pools": [{**STATUS["pools"][0], "members": guarded}]})  # type: ignore[index]
    assert lines[2:4] == [
        "pool web: 4 of 4 members usable; 1 quarantined, 1 slow start",
        "  gandalf: quarantined: it fails, for 12 s",
    ]
    assert lines[-2].startswith("sam ")
    assert lines[-1] == "frodo: ramp 40%"


def test_json_as_it_is(answering: Any, capsys: pytest.CaptureFixture[str]) -> None:
    exit_status, out, _ = status(capsys, "--json", "--url", answering().url + "/")
    assert exit_status == 0
    assert json.loads(out) == STATUS


def test_the_address_comes_from_the_configuration(
    answering: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = configuration(tmp_path, answering().url.removeprefix("http://"))
    assert status(capsys, "-c", str(path))[0] == 0


def test_nothing_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:  # bound, not listening: refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        exit_status, out, err = status(capsys, "--url", url)
    assert (exit_status, out) == (1, "")
    assert (
        err == f"{url}: no response: Connection refused. Is 'lbdns serve' running, with [web] listen at this address?\n"
    )


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (404, b"not here"),
        (500, b""),
        (200, b"<html>hello</html>"),
        (200, b"\xff\xfe"),
        (200, b"[]"),
        (200, b"{}"),
        (200, b'{"pools": 5, "server": {}}'),
        (200, json.dumps({**STATUS, "pools": [{"name": "web"}]}).encode()),
        (200, json.dumps({**STATUS, "server": {"version": 1, "uptime_s": "x", "queries": 0, "workers": 0}}).encode()),
    ],
)
def test_something_else_answers(answering: Any, capsys: pytest.CaptureFixture[str], code: int, body: bytes) -> None:
    exit_status, _, err = status(capsys, "--url", answering(code, body).url)
    assert exit_status == 1
    assert "the response is not from lbdns" in err
    assert "Traceback" not in err


def test_a_server_that_speaks_no_http(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 mail ready\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        exit_status, _, err = status(capsys, "--url", f"http://127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert exit_status == 1
    assert "no response: " in err


@pytest.mark.parametrize("url", ["", "127.0.0.1:8053", "file:///etc/passwd", "ftp://x/", "http://"])
def test_what_is_no_url(capsys: pytest.CaptureFixture[str], url: str) -> None:
    exit_status, _, err = status(capsys, "--url", url)
    assert exit_status == 2
    assert "is not a URL such as http://127.0.0.1:8053" in err


def shown(document: dict[str, Any], width: int = 80) -> list[str]:
    text = io.StringIO()
    print_status(document, Console(file=text, width=width, highlight=False))
    return text.getvalue().splitlines()


def test_it_fits_80_columns_with_long_names_and_large_numbers() -> None:
    metrics = {
        "cpu_idle": 100.0, "run_queue": 1234.0, "requests_per_s": 98765.4, "busy_workers": 1500.0,
        "gateway_ping": 399.99,
    }  # fmt: skip
    members = [member("a-very-long-name-of-a-web-server.in.some.department", share=1.0, age_s=1234.5, metrics=metrics)]
    lines = shown({**STATUS, "pools": [{**STATUS["pools"][0], "members": members}]})  # type: ignore[index]
    assert max(map(len, lines)) <= 80
    assert any("98765.4" in line and "399.99" in line for line in lines), "no figure is cut off"
    assert any("usable" in line for line in lines)


def test_fail_open_says_why() -> None:
    pool = {**STATUS["pools"][0], "fail_open": True, "fail_open_reason": "no member is usable"}  # type: ignore[index]
    assert "fail open (no member is usable)" in " ".join(" ".join(shown({**STATUS, "pools": [pool]})).split())


def test_names_are_text_not_markup() -> None:
    pool = {**STATUS["pools"][0], "members": [member("[bold]x")]}  # type: ignore[index]
    assert any("[bold]x" in line for line in shown({**STATUS, "pools": [pool]}))


def test_the_part_of_the_capacity_stands_beside_the_part_of_the_answers() -> None:
    pool = {**STATUS["pools"][0], "members": [member("gandalf", capacity_share=0.4)]}  # type: ignore[index]
    assert any(line.split()[4:6] == ["25%", "40%"] for line in shown({**STATUS, "pools": [pool]}))


def test_who_ordered_what_since_when_until_when_and_why() -> None:
    started = 1_700_000_000.0
    order = {
        "kind": "drain", "member": "gandalf.hobbit", "pool": "", "factor": 1.0, "by": "root", "reason": "new kernel",
        "since": started + 100.5, "until": started + 7300.5,
    }  # fmt: skip
    drained = member("gandalf", "drained", reason="drained by root: new kernel", overrides=[order])
    silent = member("frodo", "silent", reason="no report for 12 s", overrides=[])
    pool = {**STATUS["pools"][0], "members": [drained, silent]}  # type: ignore[index]
    lines = shown({"pools": [pool], "server": {**STATUS["server"], "started": started}})  # type: ignore[dict-item]
    assert lines[3] == "  frodo: no report for 12 s"
    assert lines[-1] == "gandalf: drained by root 1h ago, for another 1h: new kernel"


def test_a_server_that_is_not_healthy_says_so_above() -> None:
    server = {**STATUS["server"], "fault": "worker 1 has not replied for 2 s"}  # type: ignore[dict-item]
    assert shown({**STATUS, "server": server})[1] == "not healthy: worker 1 has not replied for 2 s"
    assert "healthy" not in "".join(shown(STATUS))


def test_a_server_that_is_cut_off_stands_above() -> None:
    shared = {
        "connected": False, "server": "ns1", "cut_off_since": 1_800_000_000.0, "problem": "JetStream: no reply",
        "orders": 3, "pending": 2, "counts": {},
    }  # fmt: skip
    line = "overrides: cut off from the other servers since 2027-01-15T08:00:00Z: JetStream: no reply"
    assert shown({**STATUS, "shared_overrides": shared}, 200)[1] == f"{line}; not sent yet: 2 orders"
    assert shown({**STATUS, "shared_overrides": {**shared, "pending": 0, "cut_off_since": None}}, 200)[1] == (
        "overrides: cut off from the other servers: JetStream: no reply"
    )
    assert line not in "".join(shown({**STATUS, "shared_overrides": {**shared, "connected": True}}, 200))


def test_answers_that_are_not_shared_stand_above() -> None:
    shared = {"connected": False, "problem": "permissions violation", "servers": [], "counts": {}}
    line = "answers: not shared with the other servers: permissions violation"
    assert shown({**STATUS, "shared_answers": shared}, 200)[1] == line
    assert line not in "".join(shown({**STATUS, "shared_answers": {**shared, "problem": ""}}, 200))
    bus = {"connected": False, "server": "", "problem": "Connection refused", "counts": {}}
    cut_off = {**STATUS, "shared_answers": shared, "reports": {"counts": {}, "rejected": [], "bus": bus}}
    assert line not in "".join(shown(cut_off, 200)), "the line about the bus gives the reason"


def test_a_bus_without_a_connection_stands_above() -> None:
    bus = {"connected": False, "server": "", "problem": "nats://10.0.0.5:4222: Connection refused", "counts": {}}
    line = "bus: no reports arrive: nats://10.0.0.5:4222: Connection refused"
    assert shown({**STATUS, "reports": {"counts": {}, "rejected": [], "bus": bus}})[1] == line
    for well in ({**bus, "connected": True, "problem": ""}, None):
        assert line not in shown({**STATUS, "reports": {"counts": {}, "rejected": [], "bus": well}})


def test_trouble_with_the_history_stands_above() -> None:
    history = {"on": True, "ok": False, "error": "no space left", "dropped": 7, "bytes": 0}
    lines = shown({**STATUS, "server": {**STATUS["server"], "history": history}})  # type: ignore[dict-item]
    assert lines[1:3] == ["history: cannot be written: no space left", "history: 7 records lost since startup"]
    for well in ({**history, "ok": True, "dropped": 0}, {**history, "on": False}):
        lines = shown({**STATUS, "server": {**STATUS["server"], "history": well}})  # type: ignore[dict-item]
        assert lines[1] == ""


def test_200_members_that_all_are_silent() -> None:
    long = "a-reason-without-a-place-to-break-it-that-somebody-wrote-because-it-seemed-to-be-a-good-idea-at-the-time"
    members = [member(f"m{i}", "silent", reason=f"no report for {i} s, {long}", guard="ramp 40%") for i in range(200)]
    lines = shown({**STATUS, "pools": [{**STATUS["pools"][0], "members": members}]})  # type: ignore[index]
    assert max(map(len, lines)) <= 80
    assert sum(line.split()[1:2] == ["silent"] for line in lines) == 200
    first = next(at for at, line in enumerate(lines) if line.startswith("  m0: no report for 0 s, a-reason"))
    assert lines[first].endswith("…")
    assert lines[first + 3].startswith("  197 more (silent): m3, m4, m5")
    assert lines[first + 4] == ""


def many() -> dict[str, Any]:
    """Return a status with 200 members, of which three are in trouble."""
    members = [member(f"m{i:03}", share=i / 20000) for i in range(200)]
    members[7] = member("m007", "drained", reason="drained by root")
    members[3] |= {"guard": "ramp 40%"}
    members[150] = member("m150", "silent", reason="no report for 12 s")
    mail = {**STATUS["pools"][0], "name": "mail", "members": [member("letter")]}  # type: ignore[index]
    return {**STATUS, "pools": [{**STATUS["pools"][0], "members": members}, mail]}  # type: ignore[index]


def test_a_large_farm_begins_with_a_summary_and_with_members_in_trouble(
    answering: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    url = answering(body=json.dumps(many()).encode()).url
    _, out, _ = status(capsys, "--url", url)
    lines = out.splitlines()
    assert lines[2:5] == [
        "pool web: 198 of 200 members usable; 1 silent, 1 drained, 1 slow start",
        "  m150: no report for 12 s",
        "pool mail: 1 of 1 member usable",
    ]
    rows = [line.split()[0] for line in lines if line[:1] == "m" and line[1:4].isdigit() and ":" not in line]
    assert rows == ["m150", "m007", "m003", *(f"m{i}" for i in range(199, 181, -1) if i != 150)][:20]
    assert "180 more members not shown; use --top 0 to show all" in lines
    assert max(map(len, lines)) <= 80
    _, out, _ = status(capsys, "--url", url, "--top", "199")
    assert "1 more member not shown; use --top 0 to show all" in out
    _, out, _ = status(capsys, "--url", url, "--top", "0")
    assert "not shown" not in out
    assert sum(" usable " in line and line.startswith("m") for line in out.splitlines()) == 198


def test_only_some_pools_and_states(answering: Any, capsys: pytest.CaptureFixture[str]) -> None:
    url = answering(body=json.dumps(many()).encode()).url
    _, out, _ = status(capsys, "--url", url, "--pool", "web", "--state", "silent")
    assert "letter" not in out
    assert "mail" not in out
    assert "198 of 200" in out, "the summary counts all members"
    assert [line.split()[0] for line in out.splitlines() if "m150" in line] == ["m150:", "m150"]
    assert not any(name in out for name in ("m003", "m007"))
    _, out, _ = status(capsys, "--url", url, "--json", "--pool", "web", "--state", "silent", "--state", "drained")
    (pool,) = json.loads(out)["pools"]
    assert [found["name"] for found in pool["members"]] == ["m007", "m150"]
    exit_status, out, err = status(capsys, "--url", url, "--pool", "wbe")
    assert (exit_status, out) == (2, "")
    assert "unknown pool 'wbe'. Perhaps you meant 'web'?" in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(["--json", "--top", "5"], "--top and --json cannot be used together"), (["--state", "slient"], "silent")],
)
def test_bad_options(capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str) -> None:
    exit_status, out, err = status(capsys, *arguments)
    assert (exit_status, out) == (2, "")
    assert complaint in err


def test_nothing_steers_the_terminal() -> None:
    nasty = "\x1b[2J\x07"
    order = {"kind": nasty, "member": nasty, "pool": nasty, "factor": 1, "by": nasty, "reason": nasty, "since": 0,
             "until": None}  # fmt: skip
    members = [member(nasty, nasty, reason=nasty, guard=nasty), member("x", overrides=[order])]
    tried = {"policy": nasty, "shadow": nasty, "score": nasty, "answers": {}, "diverted": 0, "diverted_share": 0.0}
    pool = {"name": nasty, "zone": nasty, "policies": {nasty: ""}, "fail_open": True, "fail_open_reason": nasty,
            "members": members, "shadow": [tried]}  # fmt: skip
    server = {**STATUS["server"], "version": nasty}  # type: ignore[dict-item]
    assert all(line.isprintable() for line in shown({"pools": [pool], "server": server}))


def rejected_sender(**changes: Any) -> dict[str, Any]:
    return {
        "source": "192.0.2.9", "host": "typo", "key_id": "0badc0de", "member_address": False, "reason": "bad_tag",
        "advice": "check the key", "count": 9, "counts": {"unknown_host": 2, "bad_tag": 7}, "age_s": 2.0, **changes,
    }  # fmt: skip


def test_rejected_reports_stand_above_the_tables() -> None:
    senders = [rejected_sender(), rejected_sender(source="\x1b[31m", host="", key_id="", counts={"malformed": 1})]
    lines = shown({**STATUS, "reports": {"counts": {}, "rejected": senders}})
    after = lines[lines.index("rejected reports in the last 10 minutes:") + 1 :]
    assert [line.rstrip() for line in after[:6]] == [
        "192.0.2.9 as typo, key 0badc0de: 2 unknown_host, 7 bad_tag, last 2s ago",
        "  bad_tag: check the key",
        "\\x1b[31m: 1 malformed, last 2s ago",
        "  bad_tag: check the key",
        "",
        "pool web in zone hobbit, names best, round.robin",
    ]


def test_only_some_rejected_reports_are_listed() -> None:
    output = io.StringIO()
    reports = {"counts": {}, "rejected": [rejected_sender(source=f"192.0.2.{n}") for n in range(20)]}
    print_status({**STATUS, "reports": reports}, Console(file=output, width=80))
    assert "192.0.2.4 as" in output.getvalue()
    assert "192.0.2.5 as" not in output.getvalue()
    assert "... and 15 more" in output.getvalue()
