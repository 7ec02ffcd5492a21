"""The interface of providers, which create, start, stop and delete servers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from lbdns_shared.errors import LbdnsError


class ProviderError(LbdnsError):
    """The provider refused a request, failed, or did not respond in time."""


class QuotaError(ProviderError):
    """The provider refused to create a server because a quota is used up."""


class MachineStatus(Enum):
    """The status of a server, as its provider reports it."""

    BUILDING = "building"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DELETING = "deleting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Machine:
    """A server that belongs to one farm of the scaler."""

    name: str  # host name relative to the zone, such as web-7; unique within the farm
    status: MachineStatus
    addresses: tuple[str, ...] = ()  # IPv4 and IPv6 addresses, the preferred one first; may be empty while building
    created: float = 0.0  # Unix seconds at which the provider began to charge for the current run; 0 if not charged
    detail: str = ""  # the provider's own status or error message


class Provider(Protocol):
    """A source of servers.

    Every method raises ProviderError if the provider refuses, fails or does not respond in time. A method returns as
    soon as the provider has accepted the request; ``machines`` then shows the progress. Each request is idempotent:
    creating a server that exists, or deleting a server that does not, has no effect. The provider stores which farm a
    server belongs to (as a tag or a name prefix), so a restarted scaler finds all of its servers again.
    """

    async def machines(self) -> tuple[Machine, ...]:
        """Return all servers of this farm, without those that have been deleted."""
        ...

    async def quota(self) -> int | None:
        """Return the maximum number of servers of this farm, or None if no limit is known."""
        ...

    async def create(self, name: str, user_data: str) -> None:
        """Create and start a server that runs ``user_data`` at its first boot. Raises QuotaError if the quota is used
        up."""
        ...

    async def start(self, name: str) -> None:
        """Start a stopped server."""
        ...

    async def stop(self, name: str) -> None:
        """Stop a running server, which then costs less and can be started again."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a server, whatever its status."""
        ...

    async def close(self) -> None:
        """Release connections and child processes that only the scaler needs."""
        ...
