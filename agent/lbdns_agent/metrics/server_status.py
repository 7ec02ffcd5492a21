"""requests_per_s, requests_total, busy_workers, idle_workers: from the web server's status page for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lbdns_agent.absent import SwitchedOffError
from lbdns_agent.asides import Steps
from lbdns_agent.host import Host
from lbdns_agent.sensor import AsideSensor, Values
from lbdns_agent.webserver.status import PATIENCE

# The names of Apache 2, then of 1.3
_TOTAL: Final = (b"Total Accesses",)
_BUSY: Final = (b"BusyWorkers", b"BusyServers")
_IDLE: Final = (b"IdleWorkers", b"IdleServers")


@dataclass(frozen=True, slots=True)
class Status:
    """What the page says; ``total`` is None without ExtendedStatus."""

    total: float | None
    busy: float
    idle: float


def parse(page: bytes) -> Status:
    """Read a server-status?auto page (mod_status). Raises ValueError when it is none, or ends too early."""
    # Apache ends every line of it; what comes after the last line end is part of a number
    lines = page[: page.rfind(b"\n") + 1].splitlines()
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b": ")
        if colon:
            fields.setdefault(name, value)
    busy, idle = _number(fields, _BUSY), _number(fields, _IDLE)
    if busy is None or idle is None:
        raise ValueError("the page has no BusyWorkers and IdleWorkers; is it the one for programs ('?auto')?")
    return Status(_number(fields, _TOTAL), busy, idle)


def _number(fields: dict[bytes, bytes], names: tuple[bytes, ...]) -> float | None:
    for name in names:
        if name in fields:
            number = float(fields[name])
            if not 0 <= number < 2**64:
                raise ValueError(f"{name.decode()} is {fields[name]!r}")
            return number
    return None


def read(host: Host) -> Steps[Status]:
    """Raises AbsentError, ValueError."""
    if host.status is None:
        raise SwitchedOffError("switched off by --server-status off")
    return parse((yield from host.status.fetch()))


def values(before: Status | None, now: Status, seconds: float) -> Values:
    """Requests/s are the difference of Total Accesses, which begins anew when the server does."""
    found: dict[str, float | str] = {"busy_workers": now.busy, "idle_workers": now.idle}
    if now.total is None:
        why = "the status page has no 'Total Accesses'; set 'ExtendedStatus On'"
        found["requests_total"] = found["requests_per_s"] = why
        return found
    found["requests_total"] = now.total
    if before is not None and before.total is not None and now.total >= before.total and seconds > 0:
        found["requests_per_s"] = (now.total - before.total) / seconds
    return found


SENSOR: Final = AsideSensor("server-status", read, values, PATIENCE)
