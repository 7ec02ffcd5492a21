"""Tests of access logs: both formats, periods, time zones, and errors with line numbers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.scaler.replay.access_log import read_access_log
from lbdns_tools.scaler.replay.demand_trace import DemandTrace

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
    found = read_access_log(log(tmp_path, *lines), 60.0)
    assert found == DemandTrace((MINUTE, MINUTE + 60, MINUTE + 120), (2 / 60, 0.0, 1 / 60), MINUTE + 180)
    assert read_access_log(log(tmp_path, *lines), 300.0) == DemandTrace((MINUTE,), (3 / 300,), MINUTE + 300)


def test_clients_may_send_any_bytes(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_bytes(COMBINED.format("10/Oct/2026:13:55:36 +0200").encode() + b"\xff\xfe\n")
    assert read_access_log(tmp_path / "access.log", 60.0).requests == 1
    with pytest.raises(ConfigError, match="No such file"):
        read_access_log(tmp_path / "none.log", 60.0)


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
        read_access_log(log(tmp_path, *lines), 60.0)
    assert message in str(error.value)
