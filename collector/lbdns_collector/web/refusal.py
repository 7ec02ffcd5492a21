"""Refusals: complete HTTP responses to clients whose connection or request never reaches aiohttp."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from lbdns_collector.status.status_document import to_json
from lbdns_collector.web.access_control import RefusalReason

JSON: Final = "application/json"
RETRY: Final = "2"  # seconds


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a connection or request is refused before aiohttp reads it."""

    reason: RefusalReason
    status: int
    what: str  # what is wrong, and how to correct it

    @classmethod
    def of_network(cls, address: str) -> Refusal:
        """Return the refusal for a client that is in none of the permitted networks."""
        what = f"{address} is not allowed to read this server's pages; its network must be added to [web] allow"
        return cls("network", HTTPStatus.FORBIDDEN, what)

    def response(self) -> bytes:
        """Return a complete response, after which the connection must be closed."""
        body = to_json({"error": self.what})
        retry = f"Retry-After: {RETRY}\r\n" if self.status == HTTPStatus.SERVICE_UNAVAILABLE else ""
        head = (
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}\r\nContent-Type: {JSON}\r\n"
            f"Content-Length: {len(body)}\r\n{retry}Connection: close\r\nCache-Control: no-store\r\n"
            f"X-Content-Type-Options: nosniff\r\nServer: lbdns\r\n\r\n"
        )
        return head.encode() + body
