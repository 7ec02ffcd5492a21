"""The table of all faults, ordered by family, and the selection of the faults to run."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError
from lbdns_tools.faults.families import (
    bus_faults,
    clock_faults,
    connection_faults,
    event_faults,
    flood_faults,
    host_faults,
    liar_faults,
    log_faults,
    memory_faults,
    process_faults,
    reload_faults,
    report_faults,
    sharing_faults,
    storage_faults,
    version_faults,
)
from lbdns_tools.faults.fault import Fault

FAMILIES: Final = (
    process_faults, host_faults, log_faults, storage_faults, clock_faults, report_faults, reload_faults,
    connection_faults, event_faults, flood_faults, memory_faults, sharing_faults, version_faults, liar_faults,
    bus_faults,
)  # fmt: skip
FAULTS: Final[tuple[Fault, ...]] = tuple(fault for family in FAMILIES for fault in family.FAULTS)


def select(patterns: Sequence[str], quick: bool) -> list[Fault]:
    """Return the faults whose names match any of ``patterns``.

    Without patterns, return all faults or, if ``quick`` is set, the quick faults.

    A pattern is a fault's name, a family, or a name with wildcards (``report.*``). Raises ConfigError if a pattern
    matches no fault.
    """
    if not patterns:
        return [fault for fault in FAULTS if fault.quick or not quick]
    for pattern in patterns:
        if not any(_matches(fault, pattern) for fault in FAULTS):
            hint = nearest(pattern, [fault.name for fault in FAULTS])
            raise ConfigError(f"--only: there is no fault named {pattern!r}{hint}; --list shows all faults")
    return [fault for fault in FAULTS if any(_matches(fault, pattern) for pattern in patterns)]


def _matches(fault: Fault, pattern: str) -> bool:
    return fault.name.split(".")[0] == pattern or fnmatchcase(fault.name, pattern)
