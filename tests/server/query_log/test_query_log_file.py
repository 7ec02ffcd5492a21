"""Tests of the query log file: a full disk, a missing file, several writers, and a slow disk."""

from __future__ import annotations

import json
import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lbdns.server.query_log import query_log as module
from lbdns.server.query_log.query_log import MAX_WAITING, QueryLog
from tests.answering.farms import hobbit
from tests.server.clients import PATIENCE, until
from tests.server.query_log.query_samples import QUERY, answered, logging_to, sample_of


def taken(log: QueryLog, count: int) -> None:
    response = answered(hobbit(), QUERY)
    for _ in range(count):
        log._take(sample_of(QUERY, response))


@contextmanager
def longest_file(size: int) -> Iterator[None]:
    """Limit the size of files that the process writes. Python ignores the signal sent when a file is too large."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_disk_that_is_full_costs_lines_and_one_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(module, "RETRY", 0.0)
    file = tmp_path / "queries.log"
    log = QueryLog()
    log.use(logging_to(hobbit(), file))
    # A line has some 200 bytes, by the number of the process: never does a whole number of them end just there
    with longest_file(999):
        taken(log, 100)
        await until(lambda: log.lost)
        await until(lambda: log.lost + file.read_bytes().count(b"\n") == 100)  # all are written or lost
    assert [record.message for record in caplog.records] == [
        f"query log: {file}: File too large; sampled queries are lost, and counted, until the file can be written"
    ]
    assert file.stat().st_size == 999, "the last line is torn"
    taken(log, 3)
    log.stop()
    lost = log.lost
    lines = file.read_text().splitlines()
    assert len(lines) == 100 - lost + 1 + 3, "the torn line stands alone"
    assert all(json.loads(line) for line in lines[-3:])
    assert caplog.messages[1:] == [f"query log: lines are written to {file} again"]


@pytest.mark.parametrize("what", ["folder", "nowhere", "pipe"])
async def test_a_file_that_is_none(what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "queries.log"
    if what == "folder":
        file.mkdir()
    elif what == "nowhere":
        file = tmp_path / "nowhere" / "queries.log"
    else:
        os.mkfifo(file)
    log = QueryLog()
    log.use(logging_to(hobbit(), file))
    taken(log, 5)
    await until(lambda: log.lost == 5)
    log.stop()
    assert log.lost == 5
    assert len(caplog.records) == 1
    assert str(file) in caplog.messages[0]


async def test_no_more_waits_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    monkeypatch.setattr(module, "PAUSE", PATIENCE)  # the writer rests; its end wakes it
    log = QueryLog()
    log.use(logging_to(hobbit(), tmp_path / "queries.log"))
    taken(log, 1)
    await until(lambda: (tmp_path / "queries.log").exists() and (tmp_path / "queries.log").stat().st_size)
    taken(log, 10)
    log.stop()
    assert log.lost == 7
    assert (tmp_path / "queries.log").read_text().count("\n") == 4
    assert MAX_WAITING > 1000


async def test_several_add_whole_lines_to_one_file(tmp_path: Path) -> None:
    """Each log has its own file descriptor, as in the workers."""
    file = tmp_path / "queries.log"
    logs = [QueryLog() for _ in range(4)]
    for log in logs:
        log.use(logging_to(hobbit(), file))
    for _ in range(5):
        for log in logs:
            taken(log, 40)
    for log in logs:
        log.stop()
    lines = file.read_text().splitlines()
    assert len(lines) == 800
    assert all(json.loads(line)["name"] == "round.robin.hobbit" for line in lines)
