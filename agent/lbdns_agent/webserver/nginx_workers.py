"""Reads nginx's counts of requests, received and in progress, from its ``stub_status`` page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.non_blocking_sensors import ReadingSteps
from lbdns_agent.webserver.status_page import ServerStatusPage, StatusUrl
from lbdns_agent.webserver.worker_status import OWN_REQUEST, WorkerStatus
from lbdns_shared.nginx_stub_status import parse_stub_status

NGINX_URL: Final = "http://127.0.0.1/nginx_status"
NGINX_LOCATION: Final = "location = /nginx_status { stub_status; access_log off; allow 127.0.0.1; deny all; }"
_ADVICE: Final[Mapping[int, str]] = {
    403: "allow this host to read the page ('allow 127.0.0.1;')",
    404: f"add '{NGINX_LOCATION}' to the server block",
}


class NginxWorkers:
    """The ``stub_status`` page of one nginx. ``workers`` is the number of requests that nginx can serve at once."""

    def __init__(self, url: StatusUrl, workers: float | None = None) -> None:
        self.page = ServerStatusPage(url, advice=_ADVICE)
        self._workers = workers

    def read(self) -> ReadingSteps[WorkerStatus]:
        """Request the page. Raises MissingValueError."""
        text = (yield from self.page.fetch()).decode("ascii", "replace")
        try:
            status = parse_stub_status(text)
        except ValueError as error:
            raise MissingValueError(f"{self.page.url}: {error}; add '{NGINX_LOCATION}' to the server block") from None
        busy = float(status.in_progress)
        idle = None if self._workers is None else max(0.0, self._workers - max(0.0, busy - OWN_REQUEST))
        return WorkerStatus(float(status.requests), busy, idle, {"nginx_waiting": float(status.waiting)})
