"""requests_per_s, requests_total, busy_workers and idle_workers, read from the web server's status page."""

from __future__ import annotations

from typing import Final

from lbdns_agent.missing_values import SwitchedOffError
from lbdns_agent.non_blocking_sensors import ReadingSteps
from lbdns_agent.sensor import MeasuredHost, NonBlockingSensor
from lbdns_agent.webserver.status_page import TIMEOUT
from lbdns_agent.webserver.worker_status import WorkerStatus, worker_metrics

# The names in Apache 2, then in 1.3
_TOTAL: Final = (b"Total Accesses",)
_BUSY: Final = (b"BusyWorkers", b"BusyServers")
_IDLE: Final = (b"IdleWorkers", b"IdleServers")


def parse(page: bytes) -> WorkerStatus:
    """Parse a server-status?auto page (mod_status). Raises ValueError if the page is not a complete status page."""
    # Apache ends every line with a newline; text after the last one may be half a number
    fields: dict[bytes, bytes] = {}
    for line in page[: page.rfind(b"\n") + 1].splitlines():
        name, colon, value = line.partition(b": ")
        if colon:
            fields.setdefault(name, value)
    busy, idle = _number(fields, _BUSY), _number(fields, _IDLE)
    if busy is None or idle is None:
        raise ValueError(
            "the page must contain BusyWorkers and IdleWorkers; check that the URL ends in '?auto', which selects the "
            "machine-readable form"
        )
    return WorkerStatus(_number(fields, _TOTAL), busy, idle)


def _number(fields: dict[bytes, bytes], names: tuple[bytes, ...]) -> float | None:
    for name in names:
        if name in fields:
            number = float(fields[name])
            if not 0 <= number < 2**64:
                raise ValueError(f"{name.decode()} is not a valid number: {fields[name]!r}")
            return number
    return None


def read(host: MeasuredHost) -> ReadingSteps[WorkerStatus]:
    if host.status is None:
        raise SwitchedOffError("switched off by --server-status off")
    return parse((yield from host.status.fetch()))


SENSOR: Final = NonBlockingSensor("server-status", read, worker_metrics, TIMEOUT)
