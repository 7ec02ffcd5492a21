"""Limits the number of concurrent requests for documents that are built for a single client.

Such a document occupies a thread while it is built, and may occupy megabytes until a slow client has read it. Waiting
clients take turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import wraps
from typing import Final

from aiohttp import web

from lbdns_collector.web.admission import Handler
from lbdns_collector.web.gated_connection import connection_of
from lbdns_collector.web.http_responses import error
from lbdns_collector.web.refusal import RETRY

MAX_AT_ONCE: Final = 8
MAX_AT_ONCE_PER_CLIENT: Final = 2
MAX_WAITING_PER_CLIENT: Final = 16


class _ClientTurns:
    def __init__(self) -> None:
        self.requests = 0  # running or waiting
        self.turns = asyncio.Semaphore(MAX_AT_ONCE_PER_CLIENT)


class ExpensiveRequests:
    """A limit on requests in progress. All handlers that ``limited`` returns share this limit."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(MAX_AT_ONCE)
        self._clients: dict[str, _ClientTurns] = {}

    def limited(self, handler: Handler) -> Handler:
        """Return a handler that waits for its turn.

        If too many requests from a client are waiting, the handler returns status 503.
        """

        @wraps(handler)
        async def wait(request: web.Request) -> web.StreamResponse:
            name = connection_of(request).client.name
            if (
                name in self._clients
                and self._clients[name].requests >= MAX_AT_ONCE_PER_CLIENT + MAX_WAITING_PER_CLIENT
            ):
                return error(
                    503, "too many requests for documents of this kind are waiting; retry later", Retry_After=RETRY
                )
            async with self._turn(name):
                connection_of(request)  # while the request waited, the client may have disconnected
                return await handler(request)

        return wait

    @asynccontextmanager
    async def _turn(self, name: str) -> AsyncIterator[None]:
        client = self._clients.setdefault(name, _ClientTurns())
        client.requests += 1
        try:
            async with client.turns, self._turns:
                yield
        finally:
            client.requests -= 1
            if not client.requests:
                del self._clients[name]
