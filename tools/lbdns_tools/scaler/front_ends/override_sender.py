"""Sends drains to lbdns through its control socket, or over HTTP if the scaler runs on another host."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlencode

from lbdns.client.control_client import send_command
from lbdns.client.http_client import HttpLocation
from lbdns_shared.errors import LbdnsError

TIMEOUT: Final = 10.0  # seconds


class OverrideSender(Protocol):
    """Sends one control command, such as ``drain``."""

    async def send(self, command: str, **words: Any) -> None:
        """Send a command and wait until it is in force. Raises LbdnsError if the server refuses it."""
        ...


class ControlSocketSender:
    """Sends commands through the control socket of an lbdns on this host."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def send(self, command: str, **words: Any) -> None:
        await asyncio.to_thread(send_command, self._path, command, **words)


class HttpSteeringSender:
    """Sends commands over HTTP to an lbdns with ``[web] steer``."""

    def __init__(self, server: HttpLocation) -> None:
        self._server = server

    async def send(self, command: str, **words: Any) -> None:
        await asyncio.to_thread(self._post, command, words)

    def _post(self, command: str, words: dict[str, Any]) -> None:
        url = self._server.url(f"/api/v1/{command}?{urlencode(words)}")
        headers = {"X-Lbdns-Steer": "1"}
        if authorization := self._server.credentials.header():
            headers["Authorization"] = authorization
        request = urllib.request.Request(url, method="POST", headers=headers)
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._server.tls())
        try:
            urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT).close()
        except urllib.error.HTTPError as error:
            with error:
                raise LbdnsError(f"{self._server.base}: {command}: {_message(error)}") from None
        except OSError as error:
            raise LbdnsError(f"{self._server.base}: {command}: {getattr(error, 'reason', error)}") from None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(65536))["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"status {error.code}"
