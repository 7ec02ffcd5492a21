"""Tests of expensive requests: few run at a time, clients take turns, and requests of clients that left do not run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lbdns_collector.web import connection_gate, expensive_requests, gated_connection
from lbdns_collector.web.expensive_requests import MAX_AT_ONCE, MAX_AT_ONCE_PER_CLIENT, MAX_WAITING_PER_CLIENT
from tests.collector.collector_fixtures import until
from tests.collector.web.served_app import Served, served


class SlowExplanations:
    """Explanations that wait for the test."""

    def __init__(self) -> None:
        self.running = self.most = self.begun = 0
        self.go = asyncio.Event()

    async def __call__(self, name: str) -> Mapping[str, Any]:
        self.running, self.begun = self.running + 1, self.begun + 1
        self.most = max(self.most, self.running)
        try:
            await self.go.wait()
        finally:
            self.running -= 1
        return {"name": name, "members": []}


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowExplanations:
    """Return explanations that wait, for a server to which only its own address counts as this machine."""
    monkeypatch.setattr(connection_gate, "is_this_machine", str.__eq__)
    return SlowExplanations()


async def ask(web: Served, address: str) -> int:
    connector = aiohttp.TCPConnector(local_addr=(address, 0))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(web.url("/api/v1/explain?name=best.hobbit")) as response,
    ):
        await response.read()
        return response.status


async def test_few_run_at_a_time_and_clients_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: SlowExplanations
) -> None:
    async with served(tmp_path) as web:
        monkeypatch.setattr(web.source, "explain", slow)
        flood = [asyncio.create_task(ask(web, "127.0.0.9")) for _ in range(MAX_WAITING_PER_CLIENT)]
        await until(lambda: slow.running == MAX_AT_ONCE_PER_CLIENT)
        other = asyncio.create_task(ask(web, "127.0.0.8"))
        await until(lambda: slow.running == MAX_AT_ONCE_PER_CLIENT + 1)
        more = [asyncio.create_task(ask(web, f"127.0.0.{number}")) for number in range(20, 30)]
        await until(lambda: slow.running == MAX_AT_ONCE)
        slow.go.set()
        assert set(await asyncio.gather(*flood, other, *more)) == {200}
        assert slow.most == MAX_AT_ONCE


async def test_too_many_of_one_client_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: SlowExplanations
) -> None:
    monkeypatch.setattr(expensive_requests, "MAX_WAITING_PER_CLIENT", 1)
    async with served(tmp_path) as web:
        monkeypatch.setattr(web.source, "explain", slow)
        asking = [asyncio.create_task(ask(web, "127.0.0.9")) for _ in range(MAX_AT_ONCE_PER_CLIENT + 2)]
        done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in done] == [503]
        slow.go.set()
        assert sorted(await asyncio.gather(*asking)) == [200] * (MAX_AT_ONCE_PER_CLIENT + 1) + [503]


async def test_requests_of_clients_that_left_do_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: SlowExplanations
) -> None:
    monkeypatch.setattr(gated_connection, "CLOSE_WITHIN", 0.1)
    async with served(tmp_path) as web:
        monkeypatch.setattr(web.source, "explain", slow)
        asking = [asyncio.create_task(ask(web, "127.0.0.9")) for _ in range(MAX_AT_ONCE_PER_CLIENT + 5)]
        await until(lambda: web.limits.busy == MAX_AT_ONCE_PER_CLIENT + 5)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await until(lambda: not web.limits.connections())
        slow.go.set()
        assert await ask(web, "127.0.0.9") == 200
        assert slow.begun == MAX_AT_ONCE_PER_CLIENT + 1
