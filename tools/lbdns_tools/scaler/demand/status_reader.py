"""Reads one pool from the status documents of running lbdns servers, without blocking the event loop."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lbdns.client.http_client import STATUS_PATH, HttpLocation, fetch
from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import key
from lbdns.secrets.http_credentials import HttpCredentials, read_tokens
from lbdns_shared.errors import LbdnsError

COLLECTOR_URL: Final = "http://127.0.0.1:8053"
FRESH: Final = 0.5  # seconds for which a document is used again
_NUMBER: Final = (int, float)
_UNKNOWN: Final = (*_NUMBER, type(None))
#: The keys of a member's document that the scaler uses
_KEYS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "name": str, "state": str, "gone": bool, "metrics": dict, "overrides": list, "age_s": _UNKNOWN,
    "interval_s": _UNKNOWN, "capacity": _UNKNOWN,
}  # fmt: skip


def http_url(text: str) -> str:
    """Return a URL of an HTTP interface. Raises ValueError."""
    if not text.startswith(("http://", "https://")):
        raise ValueError(f"{text!r} is not a URL such as {COLLECTOR_URL}")
    return text


def collector_url_key() -> str:
    """Return a field for the URL of a collector's HTTP interface."""

    def parse(table: TomlTable, name: str, default: str) -> str:
        text = table.string(name, default)
        try:
            return http_url(text)
        except ValueError as error:
            table.wrong(name, str(error), text)
            return default

    return key(parse, COLLECTOR_URL)


def server_location(url: str, token_file: Path | None) -> HttpLocation:
    """Return the location of a server, with its credentials: the token from the file if there is one, and otherwise the
    credentials from the environment.

    Raises ConfigError if the token cannot be read.
    """
    tokens = read_tokens(token_file, "token_file")[0] if token_file else ()
    return HttpLocation(url, HttpCredentials(tokens=tokens)) if tokens else HttpLocation.of_url(url)


class StatusReader:
    """Reads the state of the pool ``pool`` from one server."""

    def __init__(self, server: HttpLocation, pool: str) -> None:
        self.server, self.pool = server, pool
        self._read_at = -FRESH
        self._members: Mapping[str, Mapping[str, Any]] = {}
        self._reading = asyncio.Lock()

    async def members(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the members' documents, keyed by member name relative to the zone. Raises LbdnsError.

        Each document also contains the key ``measured``, copied from the pool's document. If ``measured`` is true,
        capacities are in requests/s.
        """
        async with self._reading:
            if time.monotonic() - self._read_at >= FRESH:
                self._members = self._pool_members(await asyncio.to_thread(fetch, self.server, STATUS_PATH))
                self._read_at = time.monotonic()
            return self._members

    def _pool_members(self, body: bytes) -> Mapping[str, Mapping[str, Any]]:
        try:
            pools = {pool["name"]: pool for pool in json.loads(body)["pools"]}
            if self.pool in pools:
                found = pools[self.pool]
                members = map(_checked, found["members"])
                return {member["name"]: {**member, "measured": found["measured"]} for member in members}
        except (ValueError, KeyError, TypeError, RecursionError):
            raise LbdnsError(f"{self.server.base}: the response is not from lbdns") from None
        known = ", ".join(pools) or "none"
        raise LbdnsError(f"{self.server.base}: there is no pool {self.pool!r}; the server's pools: {known}")


def _checked(member: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a member's document. Raises KeyError or TypeError if a value is missing or has another type."""
    for name, types in _KEYS.items():
        if not isinstance(member[name], types):
            raise TypeError(name)
    if not all(isinstance(value, _NUMBER) for value in member["metrics"].values()):
        raise TypeError("metrics")
    if not all(isinstance(override[key], str) for override in member["overrides"] for key in ("kind", "reason")):
        raise TypeError("overrides")
    return member
