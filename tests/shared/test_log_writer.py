"""Tests of the thread that writes log lines: it never delays callers, and it reports how many lines are lost."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from lbdns_shared import log_writer
from lbdns_shared.log_writer import LogWriter, QueuedStream

LIMIT = 30.0  # seconds, for any wait
PIPE = 4096  # bytes of a pipe's smallest buffer


def describe(count: int, reason: str) -> str:
    return f"lost {count}: {reason}"


def finish(writer: LogWriter) -> None:
    """Wait until the writer has nothing left to write, however slow this machine is."""
    end = time.monotonic() + LIMIT
    while writer._has_work:
        assert time.monotonic() < end
        writer.close()
    writer.close()


class Pipe:
    """A small pipe with a writer at one end."""

    def __init__(self) -> None:
        fcntl = pytest.importorskip("fcntl")
        self.read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, getattr(fcntl, "F_SETPIPE_SZ", 1031), PIPE)
        self.file: TextIO = os.fdopen(write_end, "w")
        self.writer = LogWriter(self.file, describe)

    def fill(self) -> None:
        """Fill the pipe, so that every further line waits."""
        os.write(self.file.fileno(), b"x" * (PIPE - 1) + b"\n")

    def read(self, until: str) -> list[str]:
        """Read until a line begins with ``until``, and return all lines."""
        text, end = b"", time.monotonic() + LIMIT
        while f"\n{until}".encode() not in b"\n" + text or not text.endswith(b"\n"):
            assert time.monotonic() < end
            text += os.read(self.read_end, 65536)
        return [line for line in text.decode().splitlines() if not line.startswith("xxx")]

    def close(self) -> None:
        os.close(self.read_end)
        self.writer.end_thread()
        self.file.close()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def test_lines_arrive_in_order(pipe: Pipe) -> None:
    for number in range(1000):
        pipe.writer.put(f"line {number} \N{SNOWMAN} \udcff")
    pipe.writer.put("end")
    assert pipe.read("end") == [f"line {number} \N{SNOWMAN} \\udcff" for number in range(1000)] + ["end"]
    assert pipe.writer.lost == 0


def test_a_full_queue_drops_lines_and_reports_their_number(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "MAX_LINES", 50)
    pipe.fill()
    pipe.writer.put("taken")  # by the thread, or it waits as well
    for number in range(1000):
        pipe.writer.put(f"line {number}")
    lost = pipe.writer.lost
    assert 900 < lost <= 951
    lines = pipe.read("lost")
    assert re.fullmatch(rf"lost {lost}: standard error was read too slowly for \d+ s", lines[-1])
    assert lines[:-1] == ["taken"] + [f"line {number}" for number in range(1000 - lost)], "the oldest lines are kept"
    pipe.writer.put("later")
    assert pipe.read("later") == ["later"]


def test_the_bytes_of_waiting_lines_are_bounded(pipe: Pipe) -> None:
    pipe.fill()
    for _ in range(100):
        pipe.writer.put("y" * (log_writer.MAX_BYTES // 10))
    assert pipe.writer._waiting_bytes <= log_writer.MAX_BYTES
    assert pipe.writer.lost >= 88


def test_a_line_longer_than_the_queue_is_written_if_nothing_else_waits(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "MAX_BYTES", 100)
    pipe.writer.put("z" * 20_000)
    assert pipe.read("z") == ["z" * 20_000]


def test_putting_a_line_never_waits(pipe: Pipe) -> None:
    """The reader reads nothing until all lines have been put, so this test would hang if ``put`` waited."""
    pipe.fill()
    for number in range(3 * log_writer.MAX_LINES):
        pipe.writer.put(f"line {number}")
    assert pipe.writer.lost >= 2 * log_writer.MAX_LINES - log_writer.AT_ONCE  # the thread has taken a few lines


def test_closing_waits_for_a_slow_reader(pipe: Pipe) -> None:
    for number in range(2000):
        pipe.writer.put(f"line {number}")
    pipe.writer.put("end")
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(pipe.read("end")))
    reader.start()
    finish(pipe.writer)
    reader.join(LIMIT)
    assert len(lines) == 2001


def test_closing_does_not_wait_for_a_reader_that_has_stopped(pipe: Pipe) -> None:
    pipe.fill()
    begin = time.monotonic()
    pipe.writer.put("unread")
    pipe.writer.close()
    first = time.monotonic() - begin
    assert first >= log_writer.CLOSE_PATIENCE * 0.9
    begin = time.monotonic()
    pipe.writer.close()  # the reader has been stuck for some time
    assert time.monotonic() - begin < LIMIT
    assert pipe.writer._thread is None
    assert pipe.writer._log_text == b"unread\n", "it is written if the reader reads before the end"


def test_a_reader_that_goes_away(pipe: Pipe) -> None:
    reader, pipe.read_end = pipe.read_end, os.dup(0)
    os.close(reader)
    for number in range(10):
        pipe.writer.put(f"line {number}")
        finish(pipe.writer)
    assert pipe.writer.lost == 10


def test_a_closed_descriptor() -> None:
    pipe = Pipe()
    pipe.file.close()
    pipe.writer.put("lost")
    finish(pipe.writer)
    assert pipe.writer.lost == 1
    os.close(pipe.read_end)


class FullDisk:
    """A file on a disk that is full until ``room`` is set, and then takes only ``room`` bytes per write."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w")
        self.room = 0
        self.path = path
        self._real = os.write

    def write(self, descriptor: int, data: bytes) -> int:
        if descriptor != self.file.fileno():
            return self._real(descriptor, data)
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._real(descriptor, data[: self.room])
        self.room -= written
        return written


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(tmp_path / "log")
    monkeypatch.setattr(os, "write", disk.write)
    writer = LogWriter(disk.file, describe)
    for number in range(3):
        writer.put(f"line {number}")
        finish(writer)
    disk.room = 20
    writer.put("works again")  # the report is torn when the disk is full once more
    finish(writer)
    disk.room = 10_000
    writer.put("works at last")
    finish(writer)
    lines = disk.path.read_text().splitlines()
    assert lines == ["lost 3: No space lef", "lost 4: No space left on device", "works at last"]
    assert writer.lost == 4
    disk.file.close()


def test_a_socket_as_for_the_journal() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, open(theirs.fileno(), "w", closefd=False) as file:
        writer = LogWriter(file, describe)
        writer.put("line")
        assert ours.recv(100) == b"line\n"
        ours.close()
        for _ in range(3):
            writer.put("nobody listens")
            finish(writer)
        assert writer.lost == 3


def test_no_thread_can_be_started(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    pipe.writer.put("line")
    pipe.writer.close()
    assert pipe.read("line") == ["line"]
    pipe.fill()
    pipe.writer.put("stuck")
    pipe.writer.close()


def test_a_fork_copies_neither_lines_nor_locks_nor_threads(pipe: Pipe) -> None:
    code = """
import os, sys, threading
from lbdns_shared.log_writer import LogWriter
stalled_end, full = os.pipe()
os.set_blocking(full, False)
try:
    while os.write(full, b"x" * 4096): pass
except BlockingIOError:
    pass
stalled = LogWriter(os.fdopen(full, "w"), lambda *_: "")
stalled.put("stays in the parent")
writer = LogWriter(sys.stderr, lambda *_: "")
writer.put("before the fork")
pid = os.fork()
if pid == 0:
    assert threading.active_count() == 1 == len(os.listdir("/proc/self/task"))
    assert not stalled._waiting_lines and not writer._waiting_lines
    with stalled._changed:
        writer.put("child")
    while writer._has_work:
        writer.close()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert len(stalled._waiting_lines) == 1 or stalled._log_text
writer.put("parent")
while writer._has_work:
    writer.close()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stderr.splitlines()) == ["before the fork", "child", "parent"]


def test_many_processes_do_not_mix_their_lines() -> None:
    code = """
import os, sys
from lbdns_shared.log_writer import LogWriter
writer = LogWriter(sys.stderr, lambda *_: "")
for number in range(3):
    if os.fork() == 0:
        for _ in range(500):
            writer.put(str(number) * 1000)
        while writer._has_work:
            writer.close()
        os._exit(0)
for number in range(3):
    os.wait()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT, check=False)
    lines = ended.stderr.splitlines()
    assert set(lines) == {"0" * 1000, "1" * 1000, "2" * 1000}
    assert len(lines) == 1500


def test_the_stream_puts_whole_lines(pipe: Pipe) -> None:
    stream = QueuedStream(pipe.file, pipe.writer)
    print("one", "two", file=stream)
    stream.write("three")
    stream.write(" four\nfive")
    stream.flush()
    assert pipe.read("five") == ["one two", "three four", "five"]
    assert stream.fileno() == pipe.file.fileno()
    assert not stream.isatty()
