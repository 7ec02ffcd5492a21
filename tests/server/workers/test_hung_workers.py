"""Tests of processes that hang or cannot be started: all are replaced, and /healthz tells the truth meanwhile."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lbdns.client.control_client import send_command
from lbdns_shared.endpoint import Endpoint
from tests.server.clients import PATIENCE, until
from tests.server.running import Serving, serving, write_config
from tests.server.test_dns_server import get
from tests.server.workers.test_worker_pool import (
    PORTS,
    clients,
    fork_servers_of,
    metric,
    several_workers,
    stop,
    workers_of,
)
from tests.shortage import allow_descriptors, highest_descriptor

HUNG = 3.0  # s
OK = (200, "ok\n")


class Monitor:
    """A monitoring program with an open connection, which needs no further descriptor of the server.

    If the server closes the idle connection to make room for another one, the program connects again.
    """

    def __init__(self, where: Endpoint) -> None:
        self._where = where

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._where.host, self._where.port)

    def close(self) -> None:
        self._writer.close()

    async def ask(self, path: str = "/healthz") -> tuple[int, str]:
        """Return the status and the text of the response."""
        try:
            return await self._ask(path)
        except (EOFError, ConnectionError):
            self.close()
            await self.connect()
            return await self._ask(path)

    async def _ask(self, path: str) -> tuple[int, str]:
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].split()[0])
            return int(head.split()[1]), (await self._reader.readexactly(length)).decode()

    async def sees(self, condition: Callable[[int, str], bool]) -> str:
        """Ask until the response meets a condition, and return its text."""
        async with asyncio.timeout(PATIENCE):
            while not condition(*(response := await self.ask())):
                assert (await self.ask("/livez")) == OK
                await asyncio.sleep(0.02)
        return response[1]

    async def sees_health(self) -> None:
        await self.sees(lambda status, _: status == 200)


@asynccontextmanager
async def monitored(server: Serving) -> AsyncIterator[Monitor]:
    monitor = Monitor(server.endpoint("serving "))
    await monitor.connect()
    try:
        assert await monitor.ask() == OK
        yield monitor
    finally:
        monitor.close()


@pytest.mark.parametrize("victim", [0, 1])
async def test_a_stopped_worker_is_replaced_and_its_queries_are_answered(tmp_path: Path, victim: int) -> None:
    async with several_workers(tmp_path) as server, monitored(server) as monitor:
        before = workers_of(server)
        with clients(server) as asking:
            asking.send()
            assert await asking.receive(), "the thread of the UDP socket can answer the next queries by itself"
            await stop(before[victim])
            asking.send()
            assert not await asking.receive(0.5)
            said = await monitor.sees(lambda status, _: status == 503)
            assert said.startswith(f"worker {victim} has not replied for ")
            assert await asking.receive(), "the replacement answers the queries that wait in the sockets"
        await monitor.sees_health()
        assert set(before) - set(workers_of(server)) == {before[victim]}, "the other one goes on"
        # For 3 s, or longer if this machine gives the server too little of a processor
        line = rf"worker {victim} \(process {before[victim]}\) has not replied for \d+ s; a new process replaces it"
        (logged,) = server.logged("a new process replaces it")
        assert re.search(line, logged)
        assert await metric(server, "lbdns_worker_restarts_total") == 1


async def test_a_worker_in_an_endless_loop_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANG_FLAG", str(tmp_path / "hung"))
    path = write_config(tmp_path, web="127.0.0.1:0")
    async with (
        serving(path, "--workers", "2", module="tests.server.faulty_workers") as server,
        monitored(server) as monitor,
    ):
        await asyncio.to_thread(send_command, tmp_path / "control.sock", "drain", member="gandalf")
        assert "worker 0 has not replied" in await monitor.sees(lambda status, _: status == 503)
        # After 12 s if this machine gives the worker less than a quarter of a processor
        await server.waits_for("s; a new process replaces it")
        await monitor.sees_health()
        with clients(server) as asking:
            asking.send()
            assert await asking.receive()
        assert set(asking.answers) == {"bilbo", "frodo"}


async def test_a_reload_waits_no_longer_for_a_hung_worker_than_it_takes_to_replace_it(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server:
        await stop(workers_of(server)[0])
        answer = await asyncio.to_thread(send_command, tmp_path / "control.sock", "reload")
        assert answer["ok"]
        await server.waits_for("has not replied for ")
        with clients(server) as asking:
            asking.send()
            assert await asking.receive()


async def test_workers_are_not_replaced_because_the_main_process_was_stopped(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server, monitored(server) as monitor:
        pids = [*fork_servers_of(server), *workers_of(server)]
        for _ in range(2):
            server.tell(signal.SIGSTOP)
            await asyncio.sleep(HUNG + 1.0)
            server.tell(signal.SIGCONT)
            assert await monitor.ask() == OK
        await asyncio.sleep(HUNG)
        assert [*fork_servers_of(server), *workers_of(server)] == pids
        assert not server.logged("replied")


async def test_all_processes_stopped_together_go_on_together(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server, monitored(server) as monitor:
        pids = [server.process.pid, *fork_servers_of(server), *workers_of(server)]
        for number in (signal.SIGSTOP, signal.SIGCONT):  # as job control does
            for pid in pids:
                os.kill(pid, number)
            await asyncio.sleep(HUNG + 1.0)
        assert [server.process.pid, *fork_servers_of(server), *workers_of(server)] == pids
        assert await monitor.ask() == OK


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
@pytest.mark.parametrize("which", [0, 1])
async def test_a_fork_server_that_hangs_or_dies_is_replaced(tmp_path: Path, number: signal.Signals, which: int) -> None:
    async with several_workers(tmp_path) as server, monitored(server) as monitor:
        for count in range(1, 4):
            victim = fork_servers_of(server)[which]
            os.kill(victim, number)
            await server.waits_for(f"the process that starts workers (process {victim}) has ")
            # The list of processes is incomplete while the victim ends and its workers get another parent
            await until(lambda victim=victim: victim not in (pids := fork_servers_of(server)) and len(pids) == 2)  # type: ignore[misc]
            await until(lambda: len(workers_of(server)) == 2)
            assert await monitor.ask() == OK, "the workers go on"
            worker = workers_of(server)[0]
            os.kill(worker, signal.SIGKILL)
            await server.waits_for("was ended by SIGKILL", count)
            await until(lambda worker=worker: worker not in workers_of(server) and len(workers_of(server)) == 2)  # type: ignore[misc]
            await monitor.sees_health()
        server.tell(signal.SIGTERM)
        assert await server.stopped() == 0


async def test_a_worker_dies_while_its_fork_server_hangs(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server, monitored(server) as monitor:
        os.kill(fork_servers_of(server)[0], signal.SIGSTOP)
        os.kill(workers_of(server)[0], signal.SIGKILL)
        await monitor.sees(lambda status, _: status == 503)
        await monitor.sees_health()
        await until(lambda: len(workers_of(server)) == 2)
        with clients(server) as asking:
            asking.send()
            assert await asking.receive()


# Without descriptors


async def test_a_worker_is_replaced_although_no_descriptor_is_left(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server, monitored(server) as monitor:
        pid, where = server.process.pid, server.endpoint("serving ")
        allow_descriptors(pid, highest_descriptor(pid) + 1)
        connections = [await asyncio.open_connection(where.host, where.port) for _ in range(20)]  # take what is left
        await server.waits_for("Too many open files")
        with clients(server) as asking:
            for worker in workers_of(server):
                os.kill(worker, signal.SIGKILL)
                asking.send()
                assert await asking.receive()
                await until(lambda worker=worker: worker not in workers_of(server))  # type: ignore[misc]
        await monitor.sees_health()
        for _, writer in connections:
            writer.close()


async def test_a_worker_that_cannot_be_replaced_is_replaced_later(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server, monitored(server) as monitor:
        before = allow_descriptors(server.process.pid, 3)
        victim, other = workers_of(server)
        os.kill(victim, signal.SIGKILL)
        said = await monitor.sees(lambda status, text: status == 503 and "started" in text)
        assert said == "worker 0 cannot be started: Too many open files\n"
        await asyncio.sleep(2.0)
        assert workers_of(server) == [other]
        assert len(server.logged("worker 0 can't be started: Too many open files; the server tries again")) == 1
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, before)
        await server.waits_for("worker 0 has been started")
        await monitor.sees_health()
        with clients(server) as asking:
            asking.send()
            assert await asking.receive()
            assert len(asking.answers) == PORTS


async def test_a_take_over_fails_cleanly_if_no_descriptor_is_left(tmp_path: Path) -> None:
    path = write_config(tmp_path, web="127.0.0.1:0")
    async with serving(path) as server:
        pid, where = server.process.pid, server.endpoint("serving ")
        before = allow_descriptors(pid, highest_descriptor(pid) + 1)
        connections = [await asyncio.open_connection(where.host, where.port) for _ in range(20)]
        await server.waits_for("web: accepting connections failed")
        async with serving(path, "--take-over", ready=False) as successor:
            assert await successor.stopped() == 1
        await server.waits_for("the sockets cannot be duplicated: Too many open files; this server keeps running")
        for _, writer in connections:
            writer.close()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        async with serving(path, "--take-over"):
            assert await server.stopped() == 0


async def test_fork_servers_without_descriptors(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server, monitored(server) as monitor:
        first = fork_servers_of(server)[0]
        allow_descriptors(first, 3)
        os.kill(workers_of(server)[0], signal.SIGKILL)
        await server.waits_for("fork server: a message lacks 1 of its descriptors")
        await until(lambda: first not in fork_servers_of(server) and len(fork_servers_of(server)) == 2)
        await until(lambda: len(workers_of(server)) == 2)
        await monitor.sees_health()


async def test_healthy_from_the_start(tmp_path: Path) -> None:
    path = write_config(tmp_path, web="127.0.0.1:0")
    for workers in ("1", "2"):
        async with serving(path, "--workers", workers) as server:
            assert b" 200 " in await get(server.endpoint("serving "), "/healthz")
