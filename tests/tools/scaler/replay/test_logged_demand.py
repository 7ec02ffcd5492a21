"""Tests of the demand from access logs: both formats, periods, time zones, and errors with line numbers."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.scaler.replay.demand_trace import DemandTrace
from lbdns_tools.scaler.replay.logged_demand import read_logged_demand

MINUTE = datetime(2026, 10, 10, 11, 55, tzinfo=UTC).timestamp()
COMMON = '192.0.2.7 - - [{}] "GET / HTTP/1.1" 200 2326'
COMBINED = r'2001:db8::7 - ann smith [{}] "GET /a\"b]? HTTP/2" 304 - "https://example.org/" "Mozilla/5.0 [en] (X11)"'


def log(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "access.log"
    path.write_text("\n".join(lines))
    return path


def test_requests_are_counted_by_period(tmp_path: Path) -> None:
    times = ("10/Oct/2026:13:55:36 +0200", "10/Oct/2026:11:57:59 +0000", "10/oct/2026:05:55:00 -0600", "")
    lines = [(COMMON, COMBINED)[at % 2].format(time) if time else "" for at, time in enumerate(times)]
    found = read_logged_demand(log(tmp_path, *lines), 60.0)
    assert found == DemandTrace((MINUTE, MINUTE + 60, MINUTE + 120), (2 / 60, 0.0, 1 / 60), MINUTE + 180)
    assert read_logged_demand(log(tmp_path, *lines), 300.0) == DemandTrace((MINUTE,), (3 / 300,), MINUTE + 300)


def test_clients_may_send_any_bytes(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_bytes(COMBINED.format("10/Oct/2026:13:55:36 +0200").encode() + b"\xff\xfe\n")
    assert read_logged_demand(tmp_path / "access.log", 60.0).requests == 1
    with pytest.raises(ConfigError, match="No such file"):
        read_logged_demand(tmp_path / "none.log", 60.0)


@pytest.mark.parametrize(
    "request_line", ["-", "", "POST /a HTTP/1.1", "HEAD / HTTP/1.0", r"\x16\x03\x01", 'GET /"a" HTTP/1.1', "get /"]
)
def test_every_request_counts(request_line: str, tmp_path: Path) -> None:
    line = COMMON.format("10/Oct/2026:13:55:36 +0200").replace("GET / HTTP/1.1", request_line)
    assert read_logged_demand(log(tmp_path, line), 60.0).requests == 1


def test_compressed_logs(tmp_path: Path) -> None:
    path = tmp_path / "access.log.gz"
    path.write_bytes(gzip.compress(COMMON.format("10/Oct/2026:13:55:36 +0200").encode()))
    assert read_logged_demand(path, 60.0).requests == 1
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ConfigError, match="not a valid gzip file"):
        read_logged_demand(path, 60.0)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "access.log: the log contains no requests; write lines such as: 192.0.2.7 - - ["),
        ([COMMON.format("10/Oct/2026:13:55:36 +0200"), "", "hello"], "access.log:3: not a line of the common or"),
        ([COMMON.format("10/Okt/2026:13:55:36 +0200")], "access.log:1: not a line of the common"),
        ([COMMON.format("31/Feb/2026:13:55:36 +0200")], "access.log:1: not a line of the common"),
        ([COMMON.format("10/Oct/2026:13:55:36")], "access.log:1: not a line of the common"),
        (["x"] * 30, "... and 1 more"),
        (
            [COMMON.format("10/Oct/1926:13:55:36 +0200"), COMMON.format("10/Oct/2026:13:55:36 +0200")],
            "and the limit is 1000000; use a longer period or a part of the log",
        ),
    ],
)
def test_errors_say_where(lines: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        read_logged_demand(log(tmp_path, *lines), 60.0)
    assert message in str(error.value)
