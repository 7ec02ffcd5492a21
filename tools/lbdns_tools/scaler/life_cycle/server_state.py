"""The states of a server that the scaler manages, and the transitions between them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ServerState(Enum):
    """A stage in the life of a server."""

    WANTED = "wanted"  # decided, not yet requested from the provider
    STARTING = "starting"  # requested; the provider builds or starts the server
    CONFIGURING = "configuring"  # the server runs; its web server does not respond yet
    BENCHMARKING = "benchmarking"  # a short burst of requests measures its capacity
    JOINING = "joining"  # fast enough; the front end does not send clients yet
    IN_SERVICE = "in service"
    DRAINING = "draining"  # receives no new clients; old ones may still be connected
    STOPPING = "stopping"  # drained; the provider stops the server
    STOPPED = "stopped"  # a spare, which starts faster than a new server is built
    DELETING = "deleting"  # drained or failed; the provider deletes the server
    FAILED = "failed"  # an error or a time-out; will be deleted


#: The states that each state can change to. A deleted server has no state
TRANSITIONS: Final[Mapping[ServerState, frozenset[ServerState]]] = {
    ServerState.WANTED: frozenset({ServerState.STARTING, ServerState.DELETING, ServerState.FAILED}),
    ServerState.STARTING: frozenset({ServerState.CONFIGURING, ServerState.DELETING, ServerState.FAILED}),
    ServerState.CONFIGURING: frozenset(
        {ServerState.BENCHMARKING, ServerState.JOINING, ServerState.DRAINING, ServerState.FAILED}
    ),
    ServerState.BENCHMARKING: frozenset({ServerState.JOINING, ServerState.DRAINING, ServerState.FAILED}),
    ServerState.JOINING: frozenset({ServerState.IN_SERVICE, ServerState.DRAINING, ServerState.FAILED}),
    ServerState.IN_SERVICE: frozenset({ServerState.DRAINING, ServerState.FAILED}),
    ServerState.DRAINING: frozenset({ServerState.JOINING, ServerState.STOPPING, ServerState.DELETING}),
    ServerState.STOPPING: frozenset({ServerState.STOPPED, ServerState.FAILED}),
    ServerState.STOPPED: frozenset({ServerState.STARTING, ServerState.DELETING, ServerState.FAILED}),
    ServerState.DELETING: frozenset(),
    ServerState.FAILED: frozenset({ServerState.DELETING}),
}
#: The states of servers that will be in service soon
ON_THE_WAY: Final = frozenset(
    {
        ServerState.WANTED, ServerState.STARTING, ServerState.CONFIGURING, ServerState.BENCHMARKING,
        ServerState.JOINING,
    }
)  # fmt: skip
