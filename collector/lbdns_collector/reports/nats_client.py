"""A connection of the library nats-py that never falls back to an unencrypted connection, and keeps its last error."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from nats import errors
from nats.aio.client import Client

from lbdns_collector.reports.bus_error_text import error_text


class NatsClient(Client):
    """A connection to one server. It is over when ``over`` is set."""

    def __init__(self, requires_tls: bool) -> None:
        """If ``requires_tls`` is true, no credentials are sent to a server that does not require TLS."""
        super().__init__()
        self.over = asyncio.Event()
        self._requires_tls = requires_tls
        self._last = ""

    @property
    def has_failed(self) -> bool:
        """Whether the server has sent an error since the connection began."""
        return bool(self._last)

    def reason(self, otherwise: str) -> str:
        """Return the last error as text, or ``otherwise`` if there was none."""
        return self._last or otherwise

    async def on_error(self, error: Exception) -> None:
        self._last = error_text(error)

    async def on_closed(self) -> None:
        self.over.set()

    async def end(self, longest: float) -> None:
        """Close the connection within ``longest`` seconds. It may be half open."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(longest):
                await self.close()

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        # The library encrypts a connection only if the server asks for it, so an attacker could prevent it
        if initial_connection and self._requires_tls and not info.get("tls_required"):
            raise errors.Error("the server does not require TLS; configure it there, or write nats:// in the URL")
        await super()._process_info(info, initial_connection)
