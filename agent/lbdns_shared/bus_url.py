"""Parses the URL of a NATS server: nats:// or tls://, with credentials or without. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from lbdns_shared.endpoint import Endpoint, parse_endpoint

BUS_PORT: Final = 4222
_HOW: Final = f"write nats://HOST[:PORT] or tls://HOST[:PORT] (default port: {BUS_PORT})"


@dataclass(frozen=True)
class BusServer:
    """A NATS server, and the credentials for it in its URL. As text, it is the URL without the credentials.

    With ``tls``, the connection must be encrypted. Without it, the server decides.
    """

    endpoint: Endpoint
    tls: bool = False
    user: str = field(default="", repr=False)  # a token, if there is no password
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{'tls' if self.tls else 'nats'}://{self.endpoint}"

    def credentials(self, secret: str = "") -> dict[str, str]:
        """Return the credentials as fields of the message CONNECT.

        ``secret`` comes from a file: it is the password of the user in the URL, or a token if the URL has no user. A
        password in the URL takes precedence.
        """
        password = self.password or secret
        if self.user and password:
            return {"user": self.user, "pass": password}
        token = self.user or password
        return {"auth_token": token} if token else {}


def parse_bus_url(text: str) -> BusServer:
    """Parse ``nats://[USER[:PASSWORD]@]HOST[:PORT]`` or ``nats://TOKEN@HOST[:PORT]``, or the same with ``tls://``.

    Special characters in credentials are percent-encoded (RFC 3986). Raises ValueError, whose message does not contain
    the credentials.
    """
    shown = _without_credentials(text)
    if not text.isprintable() or " " in text:
        raise ValueError(f"{shown!r} contains spaces or control characters; {_HOW}")
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ValueError(f"{shown!r} is not the URL of a NATS server: {error}; {_HOW}") from None
    if parts.scheme not in ("nats", "tls") or not parts.netloc:
        raise ValueError(f"{shown!r} is not the URL of a NATS server; {_HOW}")
    try:
        endpoint = parse_endpoint(parts.netloc.rpartition("@")[2], BUS_PORT)
    except ValueError as error:
        raise ValueError(f"{shown!r} is not the URL of a NATS server: {error}") from None
    if _has_more(parts) or not endpoint.port:
        raise ValueError(f"{shown!r}: the URL must end after the host and the port; {_HOW}")
    return BusServer(endpoint, parts.scheme == "tls", unquote(parts.username or ""), unquote(parts.password or ""))


def _has_more(parts: SplitResult) -> bool:
    return bool(parts.path.strip("/") or parts.query or parts.fragment)


def _without_credentials(text: str) -> str:
    scheme, slashes, rest = text.partition("://")
    return scheme + slashes + rest.rpartition("@")[2]
