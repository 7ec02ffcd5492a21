"""requests_per_s, requests_total, busy_workers and idle_workers, read from the web server's status page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lbdns_agent.missing_values import SwitchedOffError
from lbdns_agent.non_blocking_sensors import ReadingSteps
from lbdns_agent.sensor import MeasuredHost, MetricValues, NonBlockingSensor
from lbdns_agent.webserver.status_page import TIMEOUT

# The names in Apache 2, then in 1.3
_TOTAL: Final = (b"Total Accesses",)
_BUSY: Final = (b"BusyWorkers", b"BusyServers")
_IDLE: Final = (b"IdleWorkers", b"IdleServers")


@dataclass(frozen=True)
class WorkerStatus:
    """The values on a status page: requests since the server started, and the numbers of busy and idle workers.

    Without ExtendedStatus, the number of requests is None.
    """

    total: float | None
    busy: float
    idle: float


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


def values(before: WorkerStatus | None, now: WorkerStatus, seconds: float) -> MetricValues:
    """Return the metrics for the time between two readings.

    The request rate is computed from the increase in Total Accesses, which a server restart resets to 0.
    """
    found: dict[str, float | str] = {"busy_workers": now.busy, "idle_workers": now.idle}
    if now.total is None:
        why = "the status page has no 'Total Accesses'; set 'ExtendedStatus On'"
        found["requests_total"] = found["requests_per_s"] = why
        return found
    found["requests_total"] = now.total
    if before is not None and before.total is not None and now.total >= before.total and seconds > 0:
        found["requests_per_s"] = (now.total - before.total) / seconds
    return found


SENSOR: Final = NonBlockingSensor("server-status", read, values, TIMEOUT)
