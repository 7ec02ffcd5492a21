"""Parses the tables that HAProxy prints: ``show stat``, ``show servers state`` and ``show info``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lbdns_shared.haproxy_statistics import parse_statistics

# Bits of srv_admin_state (HAProxy's management guide, "show servers state"). The bit for "disabled in the configuration
# file" (0x04) remains set after the server has been enabled, so it says nothing about the present
_MAINTENANCE: Final = 0x01 | 0x02 | 0x20 | 0x40  # forced, inherited, no address, host name unknown
_FORCED_MAINTENANCE: Final = 0x01
_DRAIN: Final = 0x08 | 0x10  # forced, inherited
_FORCED_DRAIN: Final = 0x08
_RECEIVES: Final = (1, 2)  # srv_op_state: starting (slow start), running
CHECK_PASSED: Final = (3, 4)  # srv_check_result: passed, passed conditionally
CHECK_UNKNOWN: Final = (0, 1)  # not performed yet


@dataclass(frozen=True, slots=True)
class HaproxyServer:
    """One row of ``show servers state``."""

    name: str
    address: str
    port: int
    op_state: int
    admin_state: int
    weight: int  # the weight in effect, to which an agent check applies
    check_result: int

    @property
    def serving(self) -> bool:
        """Whether HAProxy sends new clients to the server."""
        closed = self.admin_state & (_MAINTENANCE | _DRAIN)
        return not closed and self.op_state in _RECEIVES and self.weight > 0

    @property
    def in_maintenance(self) -> bool:
        """Whether an operator or a command has put the server into maintenance."""
        return bool(self.admin_state & _FORCED_MAINTENANCE)

    @property
    def in_drain(self) -> bool:
        """Whether an operator or a command has drained the server."""
        return bool(self.admin_state & _FORCED_DRAIN)


@dataclass(frozen=True, slots=True)
class StatRow:
    """One row of ``show stat``: the figures of a server, or the totals of a backend."""

    name: str  # BACKEND for the sum
    sessions: int  # in all, since HAProxy started (stot); in HTTP mode, these are requests
    current: int  # in progress or queued (scur + qcur)
    rate: int  # in the last second
    check_status: str  # result of the newest health check, such as L4OK; empty for a backend


def parse_servers_state(text: str) -> Mapping[str, HaproxyServer]:
    """Return the servers in the output of ``show servers state BACKEND``, by name.

    Raises ValueError if the text is not such a table.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or lines[0].strip() != "1" or not lines[1].startswith("# "):
        raise ValueError("not the output of 'show servers state', format version 1")
    columns = lines[1][2:].split()
    found = {}
    for line in lines[2:]:
        row = dict(zip(columns, line.split(), strict=False))
        try:
            server = HaproxyServer(
                name=row["srv_name"],
                address=row["srv_addr"],
                port=int(row["srv_port"]),
                op_state=int(row["srv_op_state"]),
                admin_state=int(row["srv_admin_state"]),
                weight=int(row["srv_uweight"]),
                check_result=int(row["srv_check_result"]),
            )
        except KeyError as error:
            raise ValueError(f"a row of 'show servers state' has no column {error}") from None
        found[server.name] = server
    return found


def parse_stat(text: str) -> Mapping[str, StatRow]:
    """Return the rows of one backend in the output of ``show stat``, by name. Raises ValueError if it is malformed."""
    found = {}
    for row in parse_statistics(text):
        try:
            found[row["svname"]] = StatRow(
                name=row["svname"],
                sessions=int(row["stot"]),
                current=int(row["scur"]) + int(row["qcur"] or 0),
                rate=int(row["rate"] or 0),
                check_status=row.get("check_status", ""),
            )
        except KeyError as error:
            raise ValueError(f"a row of the statistics table has no column {error}") from None
    return found


def parse_info(text: str) -> Mapping[str, str]:
    """Return the keys and values in the output of ``show info``."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}
