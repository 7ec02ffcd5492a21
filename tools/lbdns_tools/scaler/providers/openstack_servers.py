"""Reads Nova servers (their status, addresses and times), and translates openstacksdk's errors."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lbdns_tools.scaler.providers.provider import Machine, MachineStatus, ProviderError, QuotaError

if TYPE_CHECKING:
    from openstack.compute.v2.server import Server

STARTED_TAG: Final = "lbdns-scaler-started"  # Unix time of the last start; Nova keeps only the time of the first one
GONE: Final = frozenset({"DELETED", "SOFT_DELETED"})
#: Nova's status -> status; servers with a status that is not listed may work, so the probes decide
_STATUSES: Final = {
    "BUILD": MachineStatus.BUILDING,
    "REBUILD": MachineStatus.BUILDING,
    "SHUTOFF": MachineStatus.STOPPED,
    "ERROR": MachineStatus.FAILED,
    # Conditions that the scaler does not cause and cannot end; a new server is cheaper than a repair
    "PAUSED": MachineStatus.FAILED,
    "SUSPENDED": MachineStatus.FAILED,
    "SHELVED": MachineStatus.FAILED,
    "SHELVED_OFFLOADED": MachineStatus.FAILED,
    "RESCUE": MachineStatus.FAILED,
}
#: Nova's task state, which says more than the status while an action is in progress
_TASKS: Final = {
    "powering-off": MachineStatus.STOPPING,
    "powering-on": MachineStatus.BUILDING,
    "deleting": MachineStatus.DELETING,
    "soft-deleting": MachineStatus.DELETING,
}
STARTED: Final = (MachineStatus.RUNNING, MachineStatus.BUILDING)
HALTED: Final = (MachineStatus.STOPPED, MachineStatus.STOPPING)
_UNUSABLE: Final = (MachineStatus.FAILED, MachineStatus.DELETING)
_QUOTA_STATUSES: Final = (403, 413, 429)  # Nova's for quotas; 429 and 413 also mean too many requests
_BAD_GATEWAY_AND_SIMILAR: Final = 500  # and above


def status(server: Server) -> MachineStatus:
    task = _TASKS.get(server.task_state or "")
    return task or _STATUSES.get(server.status, MachineStatus.RUNNING)


def detail(server: Server) -> str:
    """Return Nova's status, its task state if there is one, and the message of its fault."""
    fault = (getattr(server, "fault", None) or {}).get("message", "")
    words = server.status + (f" ({server.task_state})" if server.task_state else "")
    return f"{words}: {fault}" if fault else words


def machine(server: Server, public: bool) -> Machine:
    """Return the scaler's view of a Nova server. ``public`` selects its floating addresses."""
    found = status(server)
    charged = 0.0 if found is MachineStatus.STOPPED else _started(server)
    return Machine(server.name, found, _addresses(server, public), charged, detail(server))


def _started(server: Server) -> float:
    """Return the Unix time at which the current run began."""
    with contextlib.suppress(ValueError):
        return float((server.metadata or {}).get(STARTED_TAG, ""))
    text = server.launched_at or server.created_at or ""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _addresses(server: Server, public: bool) -> tuple[str, ...]:
    """Return the floating or the fixed addresses, IPv4 first."""
    wanted = "floating" if public else "fixed"
    every = [entry for network in (server.addresses or {}).values() for entry in network]
    found = [entry["addr"] for entry in every if entry.get("OS-EXT-IPS:type", "fixed") == wanted]
    return tuple(sorted(found, key=lambda address: ipaddress.ip_address(address).version))


def without_doubles(servers: Iterable[Server]) -> tuple[list[Server], list[Server]]:
    """Return two lists: the servers to keep (for each name, the oldest that works), and their duplicates."""
    kept: dict[str, Server] = {}
    doubles = []
    for server in sorted(servers, key=lambda server: (status(server) in _UNUSABLE, server.created_at or "", server.id)):
        if server.name not in kept:
            kept[server.name] = server
        elif status(server) is not MachineStatus.DELETING:
            doubles.append(server)
    return sorted(kept.values(), key=lambda server: str(server.name)), doubles


@contextlib.contextmanager
def conflict_ignored_if(reached: Callable[[], bool]) -> Iterator[None]:
    """Ignore Nova's refusal of an action if an earlier request, whose response was lost, has already carried it out."""
    from openstack import exceptions

    try:
        yield
    except exceptions.ConflictException:
        if not reached():
            raise


def is_transient(error: BaseException | None) -> bool:
    """Return whether a retry may succeed."""
    from keystoneauth1 import exceptions as auth
    from openstack import exceptions

    if isinstance(error, (auth.ConnectFailure, auth.RetriableConnectionFailure)):
        return True
    if isinstance(error, (exceptions.HttpException, auth.HttpError)):
        code = _code(error)
        return code >= _BAD_GATEWAY_AND_SIMILAR or (code in (413, 429) and not _is_quota(code, str(error)))
    return isinstance(error, ProviderError) and error.__cause__ is not None and is_transient(error.__cause__)


def translate(error: Exception) -> ProviderError | None:
    """Return the error for an exception of openstacksdk or keystoneauth, or None for any other exception."""
    from keystoneauth1 import exceptions as auth
    from openstack import exceptions

    if not isinstance(error, (exceptions.SDKException, auth.ClientException)):
        return None
    message = " ".join(str(error).split())
    code = _code(error) if isinstance(error, (exceptions.HttpException, auth.HttpError)) else 0
    if _is_quota(code, message):
        return QuotaError(f"openstack: {message}")
    if code == 401:
        return ProviderError(f"openstack: {message}; check the user and the password in clouds.yaml or OS_PASSWORD")
    return ProviderError(f"openstack: {message}")


def _code(error: Exception) -> int:
    """Return the HTTP status of an exception, or 0."""
    code = getattr(error, "status_code", None) or getattr(error, "http_status", None)
    return int(code) if code else 0


def _is_quota(code: int, message: str) -> bool:
    return code in _QUOTA_STATUSES and "quota" in message.lower()
