"""A web server whose status source is set by the test, and a client of the server."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from lbdns.events.server_sent_events import ServerSentEvent, ServerSentEventReader
from lbdns_collector.web.access_control import AccessControl
from lbdns_collector.web.app import make_app
from lbdns_collector.web.app_keys import HUB
from lbdns_collector.web.event_hub import EventHub
from lbdns_collector.web.http_server import HttpServer
from lbdns_collector.web.web_interface import open_web_socket
from lbdns_shared.endpoint import Endpoint
from tests.collector.collector_fixtures import FakeSource, make_farm


class Served:
    """A running web server, with its status source and a client session."""

    def __init__(
        self, source: FakeSource, server: HttpServer, app: web.Application, session: aiohttp.ClientSession
    ) -> None:
        self.source, self.server, self.app, self.session = source, server, app, session
        self.hub: EventHub = app[HUB]
        self.limits = server.gate.limits

    @property
    def server_streams(self) -> int:
        """The number of event streams that the server has open."""
        return self.hub.streams

    def url(self, path: str) -> str:
        return f"http://{self.server.address}{path}"

    @contextlib.asynccontextmanager
    async def events(self, query: str = "") -> AsyncIterator[StreamEvents]:
        async with self.session.get(self.url(f"/api/v1/events{query}")) as response:
            yield StreamEvents(response)


class StreamEvents:
    """The events of one stream in order, and the number of comments."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.keep_alives = 0
        self._reader = ServerSentEventReader()
        self._waiting: Iterator[ServerSentEvent] = iter(())

    async def next(self) -> ServerSentEvent:
        """Raises EOFError when the stream has ended."""
        while True:
            for event in self._waiting:
                return event
            piece = await self.response.content.readany()
            if not piece:
                raise EOFError
            self.keep_alives += piece.count(b": keep-alive\n")
            self._waiting = self._reader.feed(piece)

    async def to_the_end(self) -> None:
        """Read events until the server closes the stream."""
        with contextlib.suppress(EOFError):
            while True:
                await self.next()

    async def read(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the members, keyed by name, of the first pool in the next event; the event's name must be ``name``."""
        event = await self.next()
        assert event.name == name
        return by_name(json.loads(event.data))


def by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {member["name"]: member for member in document["pools"][0]["members"]}


@contextlib.asynccontextmanager
async def served(folder: Path, readers: AccessControl | None = None) -> AsyncIterator[Served]:
    source = FakeSource(make_farm(folder))
    app = make_app(source, readers)
    server = HttpServer(app, Endpoint("127.0.0.1", 0), open_web_socket(Endpoint("127.0.0.1", 0)))
    await server.start()
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
            yield Served(source, server, app, session)
    finally:
        await server.stop()
