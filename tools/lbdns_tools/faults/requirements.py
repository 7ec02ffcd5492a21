"""What the faults require of this machine, and the reasons why faults are skipped."""

from __future__ import annotations

import glob
import os
import resource
from collections.abc import Callable, Mapping
from typing import Final

from lbdns_tools.faults import old_version
from lbdns_tools.faults.isolation import is_inside
from lbdns_tools.installed_programs import is_there
from lbdns_tools.nats_servers import PROGRAM as NATS

#: Where Debian and others install the library; LBDNS_FAKETIME names another place
_FAKETIME: Final = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib*/faketime/libfaketime.so.1",
                    "/usr/local/lib/faketime/libfaketime.so.1")  # fmt: skip
DESCRIPTORS: Final = 12_000  # of this process, for 10,000 connections


def faketime_library() -> str | None:
    """Return the path of libfaketime, or None if it is not installed."""
    if named := os.environ.get("LBDNS_FAKETIME"):
        return named
    return next((path for pattern in _FAKETIME for path in glob.glob(pattern)), None)


def _lacks_faketime() -> str:
    return "" if faketime_library() else "libfaketime is not installed; run `make deps-debian` as root"


def _lacks_mounts() -> str:
    return "" if is_inside() else "the fault needs a mount namespace; run the command as root"


def _lacks_root() -> str:
    return "" if os.geteuid() == 0 else "the fault needs root privileges; run the command as root"


def _lacks_descriptors() -> str:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        return f"the fault needs {DESCRIPTORS} open files, but the limit is {hard} (ulimit -Hn)"
    return ""


def _lacks_nats() -> str:
    return "" if is_there(NATS) else f"{NATS} is not installed; run `make deps-debian` as root"


_CHECKS: Final[Mapping[str, Callable[[], str]]] = {
    "faketime": _lacks_faketime, "mounts": _lacks_mounts, "root": _lacks_root, "descriptors": _lacks_descriptors,
    NATS: _lacks_nats, "old version": old_version.why_unavailable,
}  # fmt: skip


def nothing_may_be_skipped(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a fault whose requirements are not met fails instead of being skipped (CI=true)."""
    return environment.get("CI", "").lower() in ("true", "1")


def missing(needs: tuple[str, ...]) -> str:
    """Return the reason why a fault with these ``needs`` can't run here, or "" if it can."""
    return "; ".join(filter(None, (_CHECKS[need]() for need in needs)))
