"""Shares readers between the front end and the demand source, so that each document is requested only once."""

from __future__ import annotations

from pathlib import Path

from lbdns_tools.scaler.demand.nginx_status import StubStatusPage
from lbdns_tools.scaler.demand.status_reader import StatusReader, server_location


class SharedReaders:
    """Creates readers of status documents and pages; calls with the same arguments return the same reader."""

    def __init__(self) -> None:
        self._statuses: dict[tuple[str, str, Path | None], StatusReader] = {}
        self._pages: dict[str, StubStatusPage] = {}

    def status(self, url: str, pool: str, token_file: Path | None) -> StatusReader:
        """Return the reader of a pool. Raises ConfigError if the token cannot be read."""
        key = url, pool, token_file
        if key not in self._statuses:
            self._statuses[key] = StatusReader(server_location(url, token_file), pool)
        return self._statuses[key]

    def page(self, url: str) -> StubStatusPage:
        """Return the reader of a ``stub_status`` page."""
        return self._pages.setdefault(url, StubStatusPage(url))
