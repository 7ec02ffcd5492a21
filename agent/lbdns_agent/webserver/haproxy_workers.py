"""Reads HAProxy's counts of requests, received and in progress, from its statistics socket or its CSV page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.non_blocking_sensors import ReadingSteps
from lbdns_agent.webserver.haproxy_socket import show_statistics
from lbdns_agent.webserver.status_page import ServerStatusPage, StatusUrl
from lbdns_agent.webserver.worker_status import OWN_REQUEST, WorkerStatus
from lbdns_shared.haproxy_statistics import StatisticsRow, parse_statistics

LARGEST: Final = 4 * 1024 * 1024  # bytes: 1,000 servers take about 0.5 MB
_FRONT_END, _BACK_END, _SERVER = "0", "1", "2"  # column 'type'
_PATH_ADVICE: Final = "check that the path is that of 'stats uri', followed by ';csv'"
_ADVICE: Final[Mapping[int, str]] = {
    401: "the page must not require a password ('stats auth')",
    403: "allow this host to read the page",
    404: _PATH_ADVICE,
    503: _PATH_ADVICE,  # HAProxy's status for a path that no back end serves
}


class HaproxyWorkers:
    """The statistics of one HAProxy, at the path of its socket or at the URL of its CSV page.

    ``proxies`` names the front ends, back ends and listen sections that count; if it is empty, all of them count.
    ``workers`` is the number of requests that HAProxy's servers can serve at once.
    """

    def __init__(
        self, place: StatusUrl | str, workers: float | None = None, proxies: frozenset[str] = frozenset()
    ) -> None:
        self._place, self._workers, self._proxies = place, workers, proxies
        self._page = None if isinstance(place, str) else ServerStatusPage(place, "", _ADVICE, LARGEST)
        self._own = 0.0  # readings that no measured proxy counts as requests

    def read(self) -> ReadingSteps[WorkerStatus]:
        """Request the statistics. Raises MissingValueError."""
        if self._page is not None:
            text = yield from self._page.fetch()
        else:
            assert isinstance(self._place, str)
            text = yield from show_statistics(self._place, LARGEST)
        if self._page is None or self._proxies:
            self._own += OWN_REQUEST
        try:
            rows = parse_statistics(text.decode("utf-8", "replace"))
            return haproxy_status(rows, self._proxies, self._workers, self._own)
        except ValueError as error:
            hint = "" if self._page is None or ";csv" in self._page.url.target else f"; {_PATH_ADVICE}"
            raise MissingValueError(f"{self._place}: {error}{hint}") from None


def haproxy_status(
    rows: Iterable[StatisticsRow], proxies: frozenset[str], workers: float | None, own: float
) -> WorkerStatus:
    """Return the status of ``proxies``, or of all proxies if ``proxies`` is empty, from a table of statistics.

    ``own`` is the number of the agent's requests that HAProxy hasn't counted. Raises ValueError if the table lacks a
    column, contains an invalid number, or has no row for one of the ``proxies``. Pure.
    """
    table = [row for row in rows if not proxies or row.get("pxname") in proxies]
    missing = proxies.difference(row.get("pxname", "") for row in table)
    if missing:
        raise ValueError(f"HAProxy has no proxy {', '.join(sorted(missing))}")
    front = [row for row in table if row.get("type") == _FRONT_END]
    back = [row for row in table if row.get("type") == _BACK_END]
    servers = [row for row in table if row.get("type") == _SERVER and _is_up(row)]
    if not front and not back:
        raise ValueError("HAProxy has no front end and no back end")
    # Requests in HTTP mode, else connections. A back end that is measured alone counts its own
    total = sum(_count(row, "stot" if row.get("mode") == "tcp" else "req_tot") for row in front or back)
    busy = sum(_count(row, "scur") for row in back)
    queue = sum(_count(row, "qcur") for row in back)
    if workers is None:
        idle = _free_slots(servers)
    else:
        idle = max(0.0, workers - busy)
    return WorkerStatus(total + own, busy + OWN_REQUEST, idle, {"haproxy_queue": queue})


def _free_slots(servers: Sequence[StatisticsRow]) -> float | None:
    """Return the number of requests that the servers' ``maxconn`` still permits, or None if a server has no limit."""
    if not servers or not all(row.get("slim") for row in servers):
        return None
    return sum(max(0.0, _count(row, "slim") - _count(row, "scur")) for row in servers)


def _is_up(row: StatisticsRow) -> bool:
    return row.get("status", "").startswith(("UP", "no check"))


def _count(row: StatisticsRow, column: str) -> float:
    if column not in row:
        raise ValueError(f"the table of statistics has no column {column!r}")
    text = row[column] or "0"
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise ValueError(f"the column {column!r} must contain numbers, not {text[:20]!r}")
    return float(text)
