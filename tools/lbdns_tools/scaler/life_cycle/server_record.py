"""What the scaler remembers about one server, and what it observes about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from lbdns_tools.scaler.front_ends.front_end import FrontEndServer
from lbdns_tools.scaler.life_cycle.server_state import TRANSITIONS, ServerState
from lbdns_tools.scaler.providers.provider import Machine, MachineStatus

_KEYS: Final = (
    "name",
    "state",
    "since",
    "requested",
    "keep",
    "capacity",
    "reason",
    "asked",
    "drain_asked",
    "quiet_since",
)
_TIMES: Final = ("since", "asked", "drain_asked", "quiet_since")


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """The current stage of one server's life cycle. Times are Unix seconds."""

    name: str
    state: ServerState
    since: float  # when it entered this state
    requested: bool = False  # whether the provider has accepted the request that belongs to this state
    keep: bool = False  # after draining: stop the server and keep it as a spare instead of deleting it
    capacity: float = 0.0  # requests/s that the benchmark measured; 0 if it was not measured
    reason: str = ""  # why it is in this state
    asked: float = 0.0  # when the last action on this server began
    drain_asked: float = 0.0  # when the last drain of this server was requested
    quiet_since: float = 0.0  # while draining: since when no connection has been seen; 0 if there are any

    def to(self, state: ServerState, now: float, reason: str, **more: Any) -> ServerRecord:
        """Return a copy of the record with a new state. Raises ValueError if the life cycle has no such transition."""
        if state not in TRANSITIONS[self.state]:
            raise ValueError(f"{self.name}: a server cannot change from {self.state.value!r} to {state.value!r}")
        fresh = {"requested": False, "asked": 0.0, "quiet_since": 0.0, **more}
        return replace(self, state=state, since=now, reason=reason, **fresh)

    def moved(self, seconds: float, now: float) -> ServerRecord:
        """Return a copy of the record for a clock that has been set forward by ``seconds`` (or back, if negative).

        All times are shifted by ``seconds``, but those that would then be later than ``now`` are set to ``now``. A time
        of 0 means that no time is set.
        """
        times = {key: min(time + seconds, now) for key in _TIMES if (time := getattr(self, key))}
        return replace(self, **times)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the provider and the front end currently report about one server."""

    machine: Machine | None = None  # None: the provider has no such server
    front: FrontEndServer | None = None  # None: the front end does not know the server


def record_as_json(record: ServerRecord) -> dict[str, Any]:
    """Return a record as a JSON object."""
    return {key: getattr(record, key) for key in _KEYS} | {"state": record.state.value}


def record_of_json(values: Mapping[str, Any]) -> ServerRecord:
    """Return the record that a JSON object describes. Raises KeyError, TypeError or ValueError if it is malformed."""
    text = {key: str(values[key]) for key in ("name", "reason")}
    flags = {key: bool(values[key]) for key in ("requested", "keep")}
    numbers = {key: float(values[key]) for key in ("since", "capacity", "asked", "drain_asked", "quiet_since")}
    return ServerRecord(state=ServerState(values["state"]), **text, **flags, **numbers)  # type: ignore[arg-type]


def adopt(name: str, facts: ServerFacts, now: float) -> ServerRecord:
    """Return a record for a server that the scaler does not know, for example because its state file was lost.

    The state is derived from what the provider and the front end report. A running server that serves no clients must
    pass the same checks as a new server.
    """
    machine, front = facts.machine, facts.front
    if machine is None:
        raise ValueError(f"{name}: the provider does not list this server, so it cannot be adopted")
    match machine.status:
        case MachineStatus.BUILDING:
            state = ServerState.STARTING
        case MachineStatus.RUNNING if front and front.drained:
            state = ServerState.DRAINING
        case MachineStatus.RUNNING if front and front.serving:
            state = ServerState.IN_SERVICE
        case MachineStatus.RUNNING:
            state = ServerState.CONFIGURING
        case MachineStatus.STOPPING:
            state = ServerState.STOPPING
        case MachineStatus.STOPPED:
            state = ServerState.STOPPED
        case MachineStatus.DELETING:
            state = ServerState.DELETING
        case MachineStatus.FAILED:
            state = ServerState.FAILED
    return ServerRecord(name, state, now, requested=True, reason="found at the provider")
