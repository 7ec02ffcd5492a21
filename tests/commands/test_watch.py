"""Tests of ``lbdns watch`` as a separate process, with a small HTTP server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lbdns.command_line.run_command import run
from lbdns.commands.watch import watch
from tests.commands.terminal.documents import STARTED, event
from tests.commands.terminal.stub_server import StubServer, stub_server
from tests.server.clients import PATIENCE, until

RUN = (
    "import sys; from lbdns.command_line.run_command import run; from lbdns.commands.watch import watch; "
    "sys.exit(run(watch, 'watch'))"
)


class Watching:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> str:
        assert self.process.stdout is not None
        return (await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)).decode().rstrip("\n")

    async def error(self) -> str:
        assert self.process.stderr is not None
        return (await asyncio.wait_for(self.process.stderr.readline(), PATIENCE)).decode().rstrip("\n")

    async def stopped(self) -> tuple[int, str, str]:
        """Interrupt the program with SIGINT; return its exit status, and the rest of its output and errors."""
        self.process.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(self.process.communicate(), PATIENCE)
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def watching(server: StubServer, *arguments: str) -> AsyncIterator[Watching]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, "--url", server.url, *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        await until(lambda: server.streams or process.returncode is not None)
        yield Watching(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_events_as_they_happen_until_ctrl_c() -> None:
    with stub_server() as server:
        async with watching(server) as there:
            server.send("log", event(1, "frodo is silent", level="warning"))
            assert await there.line() == "2023-11-14T22:13:20Z warning state: frodo is silent"
            server.send("log", event(2, "\x1b[31mred\n"))
            assert await there.line() == "2023-11-14T22:13:20Z info    state: \\x1b[31mred\\n"
            assert await there.stopped() == (0, "", "")
        assert "/api/v1/events?only=log" in server.paths


async def test_since_begins_with_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    with stub_server() as server:
        server.documents["/api/v1/log"] = {"events": [event(1, "first"), event(2, "second")]}
        async with watching(server, "--since", "10m") as there:
            assert (await there.line()).endswith(" first")
            assert (await there.line()).endswith(" second")
            server.send("log", event(2, "second"))  # the stream tells it, too
            server.send("log", event(3, "third"))
            assert (await there.line()).endswith(" third")
            assert (await there.stopped())[:2] == (0, "")
        (asked,) = parse_qs(urlsplit(server.paths[0]).query)["since"]
        assert float(asked) > STARTED


async def test_kinds_and_json() -> None:
    with stub_server() as server:
        async with watching(server, "--kind", "override", "--kind", "reload", "--json") as there:
            for number, kind in enumerate(("state", "override", "guard", "reload")):
                server.send("log", event(number, f"\x1b{kind}", kind))
            found: list[dict[str, Any]] = [json.loads(await there.line()) for _ in range(2)]
            assert [one["kind"] for one in found] == ["override", "reload"]
            assert found[0] == event(1, "\x1boverride", "override")
            assert (await there.stopped())[:2] == (0, "")


async def test_it_goes_on_when_the_server_comes_back_and_misses_nothing() -> None:
    with stub_server() as server:
        async with watching(server) as there:
            server.send("log", event(1, "before"))
            assert (await there.line()).endswith("before")
            port = server.port
            server.close()
            assert await there.error() == f"{server.url}: the server closed the event stream; trying again"
            with stub_server(port) as again:
                again.documents["/api/v1/log"] = {"events": [event(1, "while nobody listened", time=STARTED + 5)]}
                assert (await there.line()).endswith("while nobody listened")
                await until(lambda: again.streams)
                again.send("log", event(2, "after", time=STARTED + 6))
                assert (await there.line()).endswith("after")
                assert await there.stopped() == (0, "", "")


async def test_what_happens_while_it_connects_is_looked_up() -> None:
    with stub_server() as server:
        async with watching(server) as there:
            server.documents["/api/v1/log"] = {"events": [event(1, "between")]}
            assert (await there.line()).endswith("between")


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    exit_status = run(watch, "lbdns watch", arguments)
    captured = capsys.readouterr()
    return exit_status, captured.out, captured.err


def test_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    with stub_server() as server:
        url = server.url
    exit_status, out, err = ran(capsys, "--url", url)
    assert (exit_status, out) == (1, "")
    assert "Connection refused" in err


@pytest.mark.parametrize("document", [[], {}, {"events": [{}]}, {"events": [7]}])
def test_something_else_answers(document: object, capsys: pytest.CaptureFixture[str]) -> None:
    with stub_server() as server:
        server.documents["/api/v1/log"] = document
        exit_status, _, err = ran(capsys, "--url", server.url)
    assert exit_status == 1
    assert "the response is not from lbdns" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--since", "soon"], "write a duration such as"),
        (["--since", "0s"], "must be more than 0"),
        (["--kind", "stat"], "'stat' is not one of"),
    ],
)
def test_bad_arguments(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    exit_status, _, err = ran(capsys, *arguments)
    assert exit_status == 2
    assert said in err
