"""The interface of front ends, which send clients to servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from lbdns_shared.errors import LbdnsError


class FrontEndError(LbdnsError):
    """The front end refused a request or did not respond in time."""


@dataclass(frozen=True, slots=True)
class FrontEndServer:
    """A server as the front end sees it."""

    serving: bool  # new clients are sent to the server; False if it is drained
    drained: bool  # no new clients are sent, because the scaler asked for it, on every instance of the front end
    connections: float | None = None  # requests or connections in progress; None if unknown
    held: bool = False  # an operator keeps new clients away from the server; the scaler leaves it alone


class FrontEnd(Protocol):
    """A load balancer or DNS server that sends clients to servers. Every method raises FrontEndError. Requests are
    idempotent."""

    async def servers(self) -> Mapping[str, FrontEndServer]:
        """Return the servers that the front end knows, by name."""
        ...

    async def hold_back(self, name: str) -> None:
        """Called before a server is created: ensure that it receives no clients until ``add`` and ``undrain`` have been
        called."""
        ...

    async def add(self, name: str, addresses: tuple[str, ...]) -> None:
        """Send clients to a server. If the front end can check servers, it first checks that the server responds.

        If the front end knows the server already, only its address is updated; a drained server stays drained.
        """
        ...

    async def drain(self, name: str, reason: str) -> None:
        """Send no new clients to a server. Existing connections continue."""
        ...

    async def undrain(self, name: str) -> None:
        """Send clients to a drained server again."""
        ...

    async def remove(self, name: str) -> None:
        """Forget a server that is drained and has no connections."""
        ...
