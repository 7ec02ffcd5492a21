"""Tests of programs that run in the test's process: signals, reloads that never overlap, and stopping."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lbdns.events.event_log import EventLog
from lbdns.process.apply_configuration import PartlyAppliedError
from lbdns.process.garbage_collection import THRESHOLDS
from lbdns.process.program import run
from lbdns_shared.errors import ConfigError, ListenError
from tests.server.clients import until


class Recorder:
    """A program that records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.events = EventLog()
        self.failure: Exception | None = None
        self.hold = asyncio.Event()
        self.hold.set()
        self.hold_start = asyncio.Event()
        self.hold_start.set()

    async def start(self) -> None:
        self.calls.append("start")
        await self.hold_start.wait()
        self._fail()

    async def reload(self) -> None:
        self.calls.append("reload")
        await self.hold.wait()
        self._fail()
        self.calls.append("reloaded")

    async def stop(self) -> None:
        self.calls.append("stop")

    def _fail(self) -> None:
        if self.failure:
            raise self.failure


@asynccontextmanager
async def running(program: Recorder) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(run(program))
    await until(lambda: program.calls)
    try:
        yield task
    finally:
        if not task.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(task, 60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_stops(number: signal.Signals) -> None:
    program = Recorder()
    async with running(program) as task:
        os.kill(os.getpid(), number)
        await asyncio.wait_for(task, 60)
    assert program.calls == ["start", "stop"]


async def test_sighup_reloads() -> None:
    program = Recorder()
    async with running(program):
        for count in (1, 2):
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda count=count: program.calls.count("reloaded") == count)  # type: ignore[misc]
    assert program.calls == ["start", "reload", "reloaded", "reload", "reloaded", "stop"]


async def test_signals_during_a_reload_are_one_more_reload() -> None:
    program = Recorder()
    program.hold.clear()
    async with running(program):
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "reload" in program.calls)
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0.01)
        program.hold.set()
        await until(lambda: program.calls.count("reloaded") == 2)
    assert program.calls == ["start", "reload", "reloaded", "reload", "reloaded", "stop"]


@pytest.mark.parametrize("failure", [ConfigError("lbdns.toml: bad"), RuntimeError("a mistake of ours")])
async def test_a_reload_that_fails_is_logged_and_all_goes_on(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    program = Recorder()
    async with running(program):
        program.failure = failure
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "the old configuration stays" in caplog.text)
        assert str(failure) in caplog.text
        program.failure = None
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "reloaded" in program.calls)


async def test_a_reload_that_is_applied_in_part_does_not_claim_that_the_old_configuration_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    program = Recorder()
    async with running(program):
        program.failure = PartlyAppliedError("the new configuration is in force, but these parts failed: web")
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "reload: the new configuration is in force, but these parts failed: web" in caplog.text)
        assert "old configuration" not in caplog.text
        assert "reload: done" not in caplog.text


async def test_stopping_does_not_wait_for_a_reload() -> None:
    program = Recorder()
    program.hold.clear()
    async with running(program) as task:
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "reload" in program.calls)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(task, 60)
    assert program.calls == ["start", "reload", "stop"]


async def test_stopping_does_not_wait_for_a_start() -> None:
    program = Recorder()
    program.hold_start.clear()
    async with running(program) as task:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(task, 60)
    assert program.calls == ["start", "stop"]


async def test_a_program_may_come_to_its_end_by_itself() -> None:
    program, over = Recorder(), asyncio.Event()
    task = asyncio.create_task(run(program, over))
    await until(lambda: program.calls)
    over.set()
    await asyncio.wait_for(task, 60)
    assert program.calls == ["start", "stop"]


async def test_a_program_that_cannot_start_raises_and_is_not_stopped() -> None:
    program = Recorder()
    program.failure = ListenError("127.0.0.1:53: taken")
    with pytest.raises(ListenError):
        await run(program)
    assert program.calls == ["start"]


async def test_a_started_program_tunes_garbage_collection() -> None:
    before = gc.get_threshold()
    try:
        async with running(Recorder()):
            await until(lambda: gc.get_threshold() == THRESHOLDS)
    finally:
        gc.set_threshold(*before)
