"""A web server with a source that the test sets, and a client for it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from lbdns.endpoint import Endpoint
from lbdns.event_stream import Event, EventReader
from lbdns_collector.readers import Readers
from lbdns_collector.web.app import make_app
from lbdns_collector.web.hub import Hub
from lbdns_collector.web.keys import HUB
from lbdns_collector.web.server import WebServer
from tests.collector.making import FakeSource, make_farm


class Served:
    """A running server, its source, and a session that speaks to it."""

    def __init__(
        self, source: FakeSource, server: WebServer, app: web.Application, session: aiohttp.ClientSession
    ) -> None:
        self.source, self.server, self.app, self.session = source, server, app, session
        self.hub: Hub = app[HUB]

    @property
    def server_streams(self) -> int:
        """Event streams that are open, as the server sees it."""
        return self.hub.streams

    def url(self, path: str) -> str:
        return f"http://{self.server.address}{path}"

    @contextlib.asynccontextmanager
    async def events(self, query: str = "") -> AsyncIterator[Events]:
        async with self.session.get(self.url(f"/api/v1/events{query}")) as response:
            yield Events(response)


class Events:
    """The events of one stream, one after another; comments are counted."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.keep_alives = 0
        self._reader = EventReader()
        self._waiting: Iterator[Event] = iter(())

    async def next(self) -> Event:
        """Raises EOFError at the end of the stream."""
        while True:
            for event in self._waiting:
                return event
            piece = await self.response.content.readany()
            if not piece:
                raise EOFError
            self.keep_alives += piece.count(b": keep-alive\n")
            self._waiting = self._reader.feed(piece)

    async def to_the_end(self) -> None:
        """Read until the server has closed the stream."""
        with contextlib.suppress(EOFError):
            while True:
                await self.next()

    async def read(self, name: str) -> dict[str, dict[str, Any]]:
        """The members, by name, of the first pool of the next event, which has to be called ``name``."""
        event = await self.next()
        assert event.name == name
        return by_name(json.loads(event.data))


def by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {member["name"]: member for member in document["pools"][0]["members"]}


@contextlib.asynccontextmanager
async def served(folder: Path, readers: Readers | None = None) -> AsyncIterator[Served]:
    source = FakeSource(make_farm(folder))
    app = make_app(source, readers)
    server = WebServer(app, Endpoint("127.0.0.1", 0))
    await server.start()
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
            yield Served(source, server, app, session)
    finally:
        await server.stop()
