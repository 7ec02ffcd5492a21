"""Tests of following a program that is not a collector: a single log line, repeated attempts, and no snapshots."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.process.apply_configuration import apply
from lbdns.server import collector_follower
from tests.collector.collector_fixtures import until
from tests.server.following import STREAM, Seen, follower_of, following, lines, strange

pytestmark = pytest.mark.usefixtures("quick_follower")


async def test_each_collector_that_does_not_answer_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mute = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    async with (
        strange(mute) as (one, first_calls),
        strange(mute) as (two, second_calls),
        follower_of(following(tmp_path, one), lambda snapshot: None) as follower,
    ):
        await until(lambda: len(first_calls) >= 2)
        await apply([follower], CheckedConfiguration(following(tmp_path, two), ()))
        await until(lambda: len(second_calls) >= 2)
    assert [f"http://{address}" in line for address, line in zip((one, two), lines(caplog), strict=True)] == [
        True,
        True,
    ]


STRANGE = [
    ("mute", b"", "sent nothing for 0.1 s"),
    ("mute after the head", STREAM, "sent nothing for 0.1 s"),
    ("another service", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi", "200 text/html"),
    ("not found", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "answered 404"),
    ("no HTTP", b"SSH-2.0-OpenSSH\r\n\r\n", "400"),
    ("no JSON", STREAM + b"event: status\ndata: hello\n\n", "sent an invalid status"),
    ("no status", STREAM + b"event: status\ndata: {}\n\n", "sent an invalid status: pools must be a list"),
    ("deeply nested", STREAM + b"event: status\ndata: " + b"[" * 100_000 + b"\n\n", "reconnecting"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "what"), [row[1:] for row in STRANGE], ids=[row[0] for row in STRANGE])
async def test_a_program_that_is_not_a_collector(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: bytes, what: str
) -> None:
    seen = Seen()
    async with (
        strange(answer) as (address, calls),
        follower_of(following(tmp_path, address), seen.deliver, dead_after=0.1),
    ):
        await until(lambda: len(calls) >= 3)  # it is tried again
    told = [line for line in lines(caplog) if "readings age until the connection is back" in line]
    assert len(told) == 1, told
    assert what in told[0]
    assert seen.snapshots == []


async def test_unknown_events_are_skipped(tmp_path: Path) -> None:
    seen = Seen()
    status = (
        b'event: status\ndata: {"pools":[{"zone":"hobbit","members":[{"name":"gandalf","age_s":0,"interval_s":1,'
        b'"score":5,"metrics":{},"colour":"grey"}],"mood":1}],"weather":"fine"}\n\n'
    )
    async with (
        strange(STREAM + b": hello\n\nevent: party\ndata: x\n\n" + status) as (address, calls),
        follower_of(following(tmp_path, address), seen.deliver),
    ):
        await until(lambda: seen.score("gandalf") == 5)
        assert len(calls) == 1


async def test_pauses_grow_and_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector_follower, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(collector_follower, "LONGEST_PAUSE", 0.08)
    async with (
        strange(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n") as (address, calls),
        follower_of(following(tmp_path, address), lambda snapshot: None),
    ):
        await until(lambda: len(calls) >= 6)
    pauses = [after - before for before, after in pairwise(calls)]
    assert all(pause >= least for pause, least in zip(pauses, (0.02, 0.04, 0.08, 0.08, 0.08), strict=False))
    assert pauses[4] < 5
