"""Fixtures for tests of followers: real collectors, misbehaving collectors, and collectors' followers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from lbdns.model.farm import Farm
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.server.collector_follower import DEAD_AFTER, CollectorFollower
from lbdns_collector.web.app import make_app
from lbdns_collector.web.http_server import HttpServer
from lbdns_collector.web.web_interface import open_web_socket
from lbdns_shared.endpoint import Endpoint
from tests.collector.collector_fixtures import FakeSource, make_farm

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


class Site:
    """A collector's web interface, which a test can stop and restart at the same address."""

    def __init__(self, folder: Path) -> None:
        (folder / "collector").mkdir()
        self.source = FakeSource(make_farm(folder / "collector"))
        self.address = Endpoint("127.0.0.1", 0)
        self._server: HttpServer | None = None

    async def start(self) -> None:
        self._server = HttpServer(make_app(self.source), self.address, open_web_socket(self.address))
        await self._server.start()
        self.address = self._server.address

    async def stop(self) -> None:
        if self._server:
            await self._server.stop()
            self._server = None


@contextlib.asynccontextmanager
async def site(folder: Path) -> AsyncIterator[Site]:
    found = Site(folder)
    await found.start()
    try:
        yield found
    finally:
        await found.stop()


def following(folder: Path, address: Endpoint, **changes: object) -> Farm:
    return make_farm(folder, collector=f'connect = "http://{address}"', **changes)


class Seen:
    """Records the snapshots that a follower delivers."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []

    def deliver(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    def reading(self, name: str) -> Reading | None:
        return self.snapshots[-1].readings.get(f"{name}.hobbit") if self.snapshots else None

    def score(self, name: str) -> int | None:
        found = self.reading(name)
        return found.score if found else None


@contextlib.asynccontextmanager
async def follower_of(
    farm: Farm, deliver: Callable[[Snapshot], None], dead_after: float = DEAD_AFTER
) -> AsyncIterator[CollectorFollower]:
    follower = CollectorFollower(farm, dead_after)
    await follower.start(deliver)
    try:
        yield follower
    finally:
        await follower.stop()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "lbdns.follow"]


@contextlib.asynccontextmanager
async def strange(*answers: bytes) -> AsyncIterator[tuple[Endpoint, list[float]]]:
    """Run a server that sends ``answers`` in order, one per connection (then always the last), and nothing else."""
    calls: list[float] = []
    writers: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers[min(len(calls), len(answers) - 1)])
        calls.append(time.monotonic())
        writers.append(writer)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield Endpoint(host, port), calls
    finally:
        for writer in writers:
            writer.close()
        server.close()
