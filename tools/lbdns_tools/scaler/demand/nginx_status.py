"""Reads nginx's ``stub_status`` page."""

from __future__ import annotations

import asyncio
import http.client
import urllib.error
import urllib.request
from typing import Final

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import key
from lbdns_shared.errors import LbdnsError
from lbdns_shared.nginx_stub_status import StubStatus, parse_stub_status

DEFAULT_URL: Final = "http://127.0.0.1/nginx_status"
TIMEOUT: Final = 5.0  # seconds
MAX_PAGE: Final = 4096  # bytes: the page has fewer than 200


def url_key(default: str) -> str:
    """Return a field for the URL of the page. An empty string is permitted only as the default."""

    def read(table: TomlTable, name: str, default: str) -> str:
        url = table.string(name, default)
        if url.startswith(("http://", "https://")) or url == default:
            return url
        table.wrong(name, f"{url!r} is not a URL such as {DEFAULT_URL}")
        return default

    return key(read, default)


class StubStatusPage:
    """The page at one URL. The requests for the page itself are left out."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._own = 0  # requests for the page since nginx started
        self._before = 0  # the counter at the previous reading

    async def read(self) -> StubStatus:
        """Request the page. Raises LbdnsError."""
        found = await asyncio.to_thread(_read, self.url)
        if found.requests < self._before:  # nginx has been restarted
            self._own = 0
        self._before = found.requests
        self._own += 1
        return StubStatus(max(0, found.requests - self._own), max(0, found.in_progress - 1))


def _read(url: str) -> StubStatus:
    # No proxy: the page belongs to the own network, and a proxy's cache would return an old one
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=TIMEOUT) as response:
            return parse_stub_status(response.read(MAX_PAGE).decode("ascii", "replace"))
    except urllib.error.HTTPError as error:
        with error:
            raise LbdnsError(f"{url}: status {error.code}; is there a location with 'stub_status;'?") from None
    except (OSError, http.client.HTTPException) as error:
        raise LbdnsError(f"{url}: no response: {getattr(error, 'reason', None) or error}") from None
    except ValueError as error:
        raise LbdnsError(f"{url}: {error}") from None
