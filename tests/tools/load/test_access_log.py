"""Tests of reading access logs, and of the loads that replay them."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lbdns_shared.errors import ConfigError
from lbdns_tools.load.access_log import AccessLog, read_access_log
from lbdns_tools.load.load_plan import OpenLoop
from lbdns_tools.load.request_mix import ORDERS, RequestOrder

BASE = "http://127.0.0.1:8080/mirror/"


def line(second: int, path: str = "/", method: str = "GET") -> bytes:
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f'a - - [28/Aug/1995:{clock} +0000] "{method} {path} HTTP/1.0" 200 5\n'.encode()


def read(tmp_path: Path, *lines: bytes, notes: list[str] | None = None) -> AccessLog:
    path = tmp_path / "access.log"
    path.write_bytes(b"".join(lines))
    return read_access_log(path, (notes if notes is not None else []).append)


def test_rates_follow_the_log_and_are_scaled(tmp_path: Path) -> None:
    # 2, 0, 1, 3 requests in the four seconds; the server logged two of them late
    log = read(tmp_path, *(line(second) for second in (0, 0, 3, 2, 3, 3)))
    assert log.span_s == 4
    assert log.load(0.0, None, "even", 0) == OpenLoop((2, 0, 1, 3), 1.0)
    assert log.load(8.0, None, "poisson", 5) == OpenLoop((2, 0, 1, 3), 2.0, "poisson", requests=5)
    assert log.load(2.0, None, "even", 0) == OpenLoop((1, 2), 1.0)  # means of two seconds each
    assert log.load(4.0, (10, 40), "even", 0) == OpenLoop((30, 10, 20, 40), 1.0)
    assert log.load(0.2, None, "even", 0) == OpenLoop((1.5,), 0.2)


def test_urls_keep_their_order(tmp_path: Path) -> None:
    log = read(tmp_path, line(0, "/a"), line(0, "/b?c"), line(1, "/a"))
    mix = log.mix(BASE, "log")
    choose = mix.chooser(Random(1))
    assert [str(choose()) for _ in range(4)] == [
        f"{BASE}a", f"{BASE}b?c", f"{BASE}a", f"{BASE}a",
    ]  # fmt: skip
    choosers = [mix.chooser(Random(1), part, 2) for part in range(2)]
    assert [choosers[number % 2]().path for number in range(6)] == [
        f"/mirror/{name}" for name in ("a", "b?c", "a", "a", "b?c", "a")
    ]


def test_urls_equally_often_or_at_random(tmp_path: Path) -> None:
    log = read(tmp_path, *[line(0, "/a")] * 3, line(0, "/b"))
    choosers = [log.mix(BASE, "even").chooser(Random(1), part, 3) for part in range(3)]
    assert Counter(choosers[number % 3]().path for number in range(600)) == {"/mirror/a": 300, "/mirror/b": 300}
    choose = log.mix(BASE, "random").chooser(Random(1))
    assert 250 < Counter(choose().path for _ in range(400))["/mirror/a"] < 350
    with pytest.raises(ValueError, match="the base URL must have no query string"):
        log.mix("http://a/?b", "log")


def test_compressed_logs(tmp_path: Path) -> None:
    content = gzip.compress(line(0, "/a") + line(1, "/b"))
    assert read(tmp_path, content).paths == ("/a", "/b")
    with pytest.raises(ConfigError, match="not a valid gzip file"):
        read(tmp_path, content[:-10])
    with pytest.raises(ConfigError, match="not a valid gzip file"):
        read(tmp_path, content[:15] + b"\xff\xff" + content[17:])


def test_skipped_lines_are_counted(tmp_path: Path) -> None:
    notes: list[str] = []
    log = read(
        tmp_path,
        line(0),
        b"\n",
        b"\xff\xfe nothing\n",
        line(1, method="POST"),
        line(2),
        b"again\n",
        line(3),
        notes=notes,
    )
    assert log.counts == {0 + log.first: 1, 2 + log.first: 1, 3 + log.first: 1}
    path = tmp_path / "access.log"
    assert notes == [
        f"{path}: invalid lines skipped: 2; the first is line 3: the line is not in the common or combined log format: "
        "b'\\xff\\xfe nothing'",
        f"{path}: requests other than GET skipped: 1; the first is line 4",
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line(0), b"x\n", b"y\n"], "2 of 3 lines are not valid; the first is line 2: the line is not in"),
        ([b""], "the file contains no GET request"),
        ([line(0, method="POST")], "the file contains no GET request"),
        ([line(0), line(0).replace(b"1995", b"1970")], "the requests span 9131 days, more than the limit of 366"),
    ],
)
def test_logs_that_cannot_be_replayed(tmp_path: Path, lines: list[bytes], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, *lines)


def test_missing_files_and_rates(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the file: No such file or directory"):
        read_access_log(tmp_path / "none", print)
    with pytest.raises(ConfigError, match="cannot read the file: Is a directory"):
        read_access_log(tmp_path, print)


@given(st.lists(st.integers(0, 80_000), min_size=1, max_size=50), st.floats(0.01, 1e5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_request_counts_once(tmp_path: Path, seconds: list[int], length: float) -> None:
    log = read(tmp_path, *map(line, seconds))
    load = log.load(length, None, "even", 0)
    assert len(load.rates) <= min(log.span_s, max(1, round(length)))
    assert load.length_s == pytest.approx(length)
    # At the log's own speed, the steps are whole seconds, and their rates add up to the requests
    whole = log.load(0.0, None, "even", 0)
    assert sum(whole.rates) == len(seconds)
    assert 0 <= min(load.rates) <= max(load.rates) <= max(whole.rates)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=20), st.sampled_from(ORDERS), st.integers(1, 5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_logged_urls_are_requested(tmp_path: Path, names: list[str], order: RequestOrder, parts: int) -> None:
    mix = read(tmp_path, *(line(at, f"/{name}") for at, name in enumerate(names))).mix(BASE, order)
    choosers = [mix.chooser(Random(part), part, parts) for part in range(parts)]
    found = [choosers[number % parts]().path.removeprefix("/mirror/") for number in range(2 * len(names))]
    assert set(found) <= set(names)
    if order == "log":
        assert found == names * 2
