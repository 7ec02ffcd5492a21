"""The key ``join`` of a ``[[pool]]``, which defines which hosts may join the pool by reporting."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import Final

from lbdns.config import value_readers as read
from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import Network, parse_network

MAX_JOINED: Final = 10_000  # hosts in one pool
DEFAULT_MAX: Final = 100
DEFAULT_LEAVE_AFTER: Final = 600.0  # s
LEAST_LEAVE_AFTER: Final = 1.0  # s
_PATTERN: Final = re.compile(r"[a-z0-9_*?.-]{1,253}\Z")


def _names(table: TomlTable, key: str, _: object) -> tuple[str, ...]:
    patterns = tuple(dict.fromkeys(name.lower() for name in table.strings(key)))
    if not table.values.get(key):
        table.wrong(key, "is missing; write a pattern for the names of the hosts that may join, such as 'web-*'")
    for pattern in patterns:
        if not _PATTERN.match(pattern):
            what = f"{pattern!r} is not a pattern for host names; use only letters, digits, '-', '_', '.', '*' and '?'"
            table.wrong(key, what, pattern)
    return patterns


def _networks(table: TomlTable, key: str, default: tuple[Network, ...]) -> tuple[Network, ...]:
    networks = table.each(key, default, parse_network)
    if not table.values.get(key):
        table.wrong(key, "is missing; list the networks of the hosts that may join, such as '10.0.0.0/8'")
    return tuple(dict.fromkeys(networks))


@dataclass(frozen=True, slots=True)
class JoinConfig:
    """The hosts that may join a pool, and when a silent host leaves it."""

    names: tuple[str, ...] = read.key(_names, ())  # patterns for names relative to the zone, with * and ?
    networks: tuple[Network, ...] = read.key(_networks, ())  # must contain every address of a host that joins
    max: int = read.integer(DEFAULT_MAX, 1, MAX_JOINED)  # hosts that may be joined at the same time
    leave_after: float = read.duration(DEFAULT_LEAVE_AFTER, LEAST_LEAVE_AFTER)  # s without a report

    def permits_name(self, name: str) -> bool:
        """Return whether a host called ``name`` (relative to the zone, in lower case) may join."""
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.names)


def read_join(table: TomlTable, key: str, _: object) -> JoinConfig | None:
    """Return the settings for joining the pool, or None if joining is off. Add errors to the table's findings."""
    inner = table.table(key)
    if inner is None:
        return None
    found = read.read_fields(JoinConfig, inner)
    inner.end()
    return found
