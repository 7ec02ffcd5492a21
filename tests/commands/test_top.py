"""Tests of ``lbdns top`` in a pseudo-terminal, with a small HTTP server."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lbdns.command_line.run_command import run
from lbdns.commands.top import top
from tests.commands.terminal.documents import event, member, pool, status
from tests.commands.terminal.stub_server import StubServer, stub_server
from tests.server.clients import PATIENCE, until

#: The terminal becomes the one that Ctrl-C and Ctrl-Z of come from.
RUN = (
    "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); from lbdns.command_line.run_command import run; "
    "from lbdns.commands.top import top; sys.exit(run(top, 'lbdns top'))"
)
RECENT = 40_000  # characters, some frames: what came before is not looked through again and again
ENTER, LEAVE, SHOW_CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"


class Terminal:
    """The master end of a pseudo-terminal. The program under test runs on the slave end."""

    def __init__(self, process: asyncio.subprocess.Process, master: int, slave: int) -> None:
        self.process, self.master, self.slave = process, master, slave
        self.before = termios.tcgetattr(slave)
        self.written = ""
        self.resize(24, 80)
        os.set_blocking(master, False)
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        try:
            self.written += os.read(self.master, 65536).decode(errors="replace")
        except OSError:
            asyncio.get_running_loop().remove_reader(self.master)

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def frame(self) -> list[str]:
        """Return the lines of the newest complete frame, or an empty list if there is none."""
        for frame in reversed(self.written[-RECENT:].split("\x1b[H")):
            lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", frame).replace("\r", "").split("\n")
            if len(lines) == self.rows and len(lines[-1]) == self.columns:
                return lines
        return []

    async def shows(self, text: str) -> list[str]:
        try:
            await until(lambda: any(text in line for line in self.frame()) or self.process.returncode is not None)
        except AssertionError:
            raise AssertionError("\n".join([f"no {text!r} in", *self.frame(), repr(self.written[-2000:])])) from None
        found = self.frame()
        assert any(text in line for line in found), self.written[-2000:]
        return found

    async def ended(self) -> int:
        """Return the exit status, after checking that the terminal was restored."""
        status = await asyncio.wait_for(self.process.wait(), PATIENCE)
        await until(lambda: LEAVE in self.written)
        assert self.written.rfind(LEAVE) > self.written.rfind(ENTER)
        assert SHOW_CURSOR in self.written
        assert termios.tcgetattr(self.slave) == self.before
        return status


@asynccontextmanager
async def terminal(server: StubServer, *arguments: str, **environment: str) -> AsyncIterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))  # before it looks
    # COLUMNS and LINES, which a test runner may have set, would count for more than the terminal's size
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, "--url", server.url, "--interval", "0.1", *arguments,
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        env={**inherited, "TERM": "xterm", "LANG": "C.UTF-8", "PYTHONUTF8": "1", **environment},
    )  # fmt: skip
    found = Terminal(process, master, slave)
    try:
        yield found
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        asyncio.get_running_loop().remove_reader(master)
        os.close(master)
        os.close(slave)


def many(count: int) -> dict[str, Any]:
    return status(pool(members=[member(f"m{i:03}", answers=i) for i in range(count)]))


async def test_it_follows_the_stream_and_ends_by_q() -> None:
    with stub_server() as server:
        server.documents["/api/v1/log"] = {"events": [event(1, "frodo is silent")]}
        async with terminal(server) as there:
            frame = await there.shows("gandalf")
            assert any("q quit" in line for line in frame)
            assert any("frodo is silent" in line for line in frame)
            await until(lambda: server.streams)
            server.send("status", status(pool(members=[member("bilbo", "drained", reason="drained by root")])))
            server.send("log", event(2, "bilbo is drained"))
            frame = await there.shows("bilbo is drained")
            assert any("drained by root" in line for line in frame)
            there.press("q")
            assert await there.ended() == 0


async def test_keys() -> None:
    with stub_server() as server:
        server.documents["/api/v1/status"] = many(100)
        async with terminal(server) as there:
            await there.shows("m000")
            there.press("\x1b[6~")
            await there.shows("m030")
            there.press("/99\r")
            await there.shows("with '99'")
            there.press("\x1b")
            await there.shows(" of 100")
            there.press("ss")
            await there.shows("by state")
            there.press("?")
            await there.shows("scroll by one screen")
            there.resize(40, 120)
            there.press("x")
            frame = await there.shows("ping")
            assert "queue" in "".join(frame)
            there.press("q")
            assert await there.ended() == 0


@pytest.mark.parametrize("way", ["ctrl-c", "SIGTERM", "SIGHUP"])
async def test_however_it_ends_the_terminal_is_as_it_was(way: str) -> None:
    with stub_server() as server:
        async with terminal(server) as there:
            await there.shows("gandalf")
            if way == "ctrl-c":
                there.press("\x03")
            else:
                there.process.send_signal(signal.Signals[way])
            assert await there.ended() == 0


async def test_it_makes_room_for_the_shell_and_comes_back() -> None:
    with stub_server() as server:
        async with terminal(server) as there:
            await there.shows("gandalf")
            there.press("\x1a")
            await until(lambda: LEAVE in there.written)
            assert termios.tcgetattr(there.slave) == there.before
            await until(lambda: _state(there.process.pid) == "T")
            there.written = ""
            there.process.send_signal(signal.SIGCONT)
            await there.shows("gandalf")
            assert ENTER in there.written
            there.press("q")
            assert await there.ended() == 0


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


async def test_it_says_that_the_server_is_gone_and_finds_it_again() -> None:
    with stub_server() as server:
        async with terminal(server) as there:
            await there.shows("gandalf")
            await until(lambda: server.streams)
            port = server.port
            server.close()
            await there.shows("old: http://127.0.0.1")
            with stub_server(port) as again:
                await until(lambda: again.streams, 30)
                again.send("status", status(pool(members=[member("saruman")])))
                frame = await there.shows("saruman")
                assert not any("old:" in line for line in frame)
                there.press("q")
                assert await there.ended() == 0


async def test_what_is_no_status_ends_it_cleanly() -> None:
    with stub_server() as server:
        async with terminal(server) as there:
            await there.shows("gandalf")
            await until(lambda: server.streams)
            server.send("status", {"pools": [{"name": "web"}]})
            assert await there.ended() == 1
            await until(lambda: "the response is not from lbdns" in there.written)
            assert "Traceback" not in there.written


async def test_terminals_that_cannot_be_drawn_on() -> None:
    with stub_server() as server:
        async with terminal(server, TERM="dumb") as there:
            assert await asyncio.wait_for(there.process.wait(), PATIENCE) == 1
            await until(lambda: "--once" in there.written)
            assert "TERM='dumb'" in there.written
            assert ENTER not in there.written


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    exit_status = run(top, "lbdns top", arguments)
    captured = capsys.readouterr()
    return exit_status, captured.out, captured.err


def test_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    exit_status, out, err = ran(capsys)
    assert (exit_status, out) == (1, "")
    assert "must be a terminal" in err
    assert "--once" in err


@pytest.mark.parametrize("columns", [80, 200])
def test_one_frame(columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", "24")
    with stub_server() as server:
        server.documents["/api/v1/status"] = many(200)
        exit_status, out, err = ran(capsys, "--once", "--interval", "0.1", "--url", server.url)
    assert (exit_status, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == 24
    assert max(map(len, lines)) <= columns
    assert "0.00" in next(line for line in lines if line.startswith("m000"))
    assert "\x1b" not in out


@pytest.mark.parametrize("arguments", [["--interval", "0"], ["--interval", "x"], ["--url", "nowhere", "--once"]])
def test_bad_arguments(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(capsys, *arguments)[0] == 2


@pytest.mark.parametrize("document", [[], {}, {"pools": [{"name": "web"}], "server": {}}])
def test_something_else_answers(document: object, capsys: pytest.CaptureFixture[str]) -> None:
    with stub_server() as server:
        server.documents["/api/v1/status"] = document
        exit_status, _, err = ran(capsys, "--once", "--url", server.url)
    assert exit_status == 1
    assert "the response is not from lbdns" in err
