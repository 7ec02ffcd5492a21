"""The next step of a server in every state, as a table."""

from __future__ import annotations

from typing import Any

import pytest

from lbdns_tools.scaler.front_ends.front_end import FrontEndServer
from lbdns_tools.scaler.life_cycle.next_step import Action, LifeTimes, next_step
from lbdns_tools.scaler.life_cycle.server_record import ServerFacts, ServerRecord
from lbdns_tools.scaler.life_cycle.server_state import TRANSITIONS, ServerState
from lbdns_tools.scaler.providers.provider import Machine, MachineStatus

S, M, A = ServerState, MachineStatus, Action
TIMES = LifeTimes(start=60, configure=50, join=40, silent=30, resolvers=20, quiet=3, drain=100, stop=70)
NOW = 10_000.0


def machine(status: MachineStatus, detail: str = "") -> Machine:
    return Machine("web-1", status, ("127.0.1.1",), detail=detail)


BUILDING, RUNNING, STOPPED, FAILED = (machine(s) for s in (M.BUILDING, M.RUNNING, M.STOPPED, M.FAILED))
SERVING, QUIET, BUSY = FrontEndServer(True, False, 0), FrontEndServer(False, True, 0), FrontEndServer(False, True, 4)
SILENT, HELD, UNKNOWN = (
    FrontEndServer(False, False),
    FrontEndServer(False, False, held=True),
    FrontEndServer(False, True),
)

Row = tuple[
    ServerState, float, dict[str, Any], Machine | None, FrontEndServer | None, ServerState | None, Action | None
]
#: State, seconds in it, other fields of the record, server, front end -> next state (None: forgotten), action
ROWS: list[Row] = [
    (S.WANTED, 0, {}, None, None, S.WANTED, A.CREATE),
    (S.WANTED, 1, {"asked": NOW - 1}, None, None, S.WANTED, None),
    (S.WANTED, 9, {"asked": NOW - 6}, None, None, S.WANTED, A.CREATE),
    (S.WANTED, 61, {}, None, None, S.FAILED, None),
    (S.WANTED, 1, {}, BUILDING, None, S.STARTING, None),
    (S.STARTING, 0, {}, STOPPED, None, S.STARTING, A.START),
    (S.STARTING, 0, {}, None, None, S.FAILED, None),
    (S.STARTING, 5, {"requested": True}, BUILDING, None, S.STARTING, None),
    (S.STARTING, 5, {"requested": True}, RUNNING, None, S.CONFIGURING, None),
    (S.STARTING, 5, {"requested": True}, machine(M.FAILED, "no host"), None, S.FAILED, None),
    (S.STARTING, 5, {"requested": True}, None, None, S.STARTING, None),
    (S.STARTING, 61, {"requested": True}, None, None, S.FAILED, None),
    (S.STARTING, 61, {"requested": True}, BUILDING, None, S.FAILED, None),
    (S.CONFIGURING, 5, {}, RUNNING, None, S.CONFIGURING, A.PROBE),
    (S.CONFIGURING, 5, {"asked": NOW}, RUNNING, None, S.CONFIGURING, None),
    (S.CONFIGURING, 5, {}, RUNNING, SERVING, S.CONFIGURING, A.DRAIN),
    (S.CONFIGURING, 5, {"drain_asked": NOW - 2}, RUNNING, SERVING, S.CONFIGURING, A.PROBE),
    (S.CONFIGURING, 51, {}, RUNNING, None, S.FAILED, None),
    (S.CONFIGURING, 5, {}, None, None, S.FAILED, None),
    (S.BENCHMARKING, 5, {}, RUNNING, QUIET, S.BENCHMARKING, A.BENCHMARK),
    (S.BENCHMARKING, 5, {}, STOPPED, QUIET, S.FAILED, None),
    (S.JOINING, 5, {}, RUNNING, None, S.JOINING, A.ADD),
    (S.JOINING, 5, {}, RUNNING, QUIET, S.JOINING, A.UNDRAIN),
    (S.JOINING, 5, {}, RUNNING, SERVING, S.IN_SERVICE, None),
    (S.JOINING, 41, {}, RUNNING, SILENT, S.FAILED, None),
    (S.JOINING, 5, {}, RUNNING, HELD, S.IN_SERVICE, None),
    (S.IN_SERVICE, 5, {}, RUNNING, SERVING, S.IN_SERVICE, None),
    (S.IN_SERVICE, 5, {}, RUNNING, QUIET, S.IN_SERVICE, A.UNDRAIN),
    (S.IN_SERVICE, 500, {"quiet_since": NOW - 31}, RUNNING, QUIET, S.FAILED, None),
    (S.IN_SERVICE, 500, {"quiet_since": NOW - 31}, RUNNING, HELD, S.IN_SERVICE, None),
    (S.IN_SERVICE, 500, {"quiet_since": NOW - 29}, RUNNING, SILENT, S.IN_SERVICE, A.ADD),
    (S.IN_SERVICE, 500, {"quiet_since": NOW - 29, "asked": NOW - 1}, RUNNING, SILENT, S.IN_SERVICE, None),
    (S.IN_SERVICE, 500, {"quiet_since": NOW - 31}, RUNNING, SILENT, S.FAILED, None),
    (S.IN_SERVICE, 500, {"quiet_since": NOW - 29}, RUNNING, None, S.IN_SERVICE, A.ADD),
    (S.IN_SERVICE, 500, {}, FAILED, SERVING, S.FAILED, None),
    (S.DRAINING, 1, {}, RUNNING, SERVING, S.DRAINING, A.DRAIN),
    (S.DRAINING, 30, {"quiet_since": NOW - 4}, RUNNING, QUIET, S.DELETING, None),
    (S.DRAINING, 30, {"quiet_since": NOW - 4, "keep": True}, RUNNING, QUIET, S.STOPPING, None),
    (S.DRAINING, 30, {"quiet_since": NOW - 1}, RUNNING, QUIET, S.DRAINING, None),
    (S.DRAINING, 19, {"quiet_since": NOW - 9}, RUNNING, QUIET, S.DRAINING, None),
    (S.DRAINING, 99, {}, RUNNING, BUSY, S.DRAINING, None),
    (S.DRAINING, 99, {}, RUNNING, UNKNOWN, S.DRAINING, None),
    (S.DRAINING, 101, {}, RUNNING, BUSY, S.DELETING, None),
    (S.DRAINING, 101, {}, RUNNING, SERVING, S.DRAINING, A.DRAIN),
    (S.DRAINING, 999, {}, RUNNING, HELD, S.DRAINING, None),
    (S.DRAINING, 1, {}, None, None, S.DELETING, None),
    (S.STOPPING, 1, {}, RUNNING, QUIET, S.STOPPING, A.STOP),
    (S.STOPPING, 1, {"requested": True}, RUNNING, QUIET, S.STOPPING, None),
    (S.STOPPING, 1, {"requested": True}, STOPPED, QUIET, S.STOPPED, None),
    (S.STOPPING, 71, {"requested": True}, RUNNING, QUIET, S.FAILED, None),
    (S.STOPPED, 1, {}, STOPPED, None, S.STOPPED, None),
    (S.STOPPED, 1, {}, None, None, None, None),
    (S.STOPPED, 1, {}, RUNNING, None, S.STARTING, None),
    (S.STOPPED, 1, {}, machine(M.DELETING), None, S.DELETING, None),
    (S.FAILED, 1, {}, RUNNING, SERVING, S.FAILED, A.DRAIN),
    (S.FAILED, 1, {}, RUNNING, QUIET, S.DELETING, None),
    (S.FAILED, 31, {}, RUNNING, SERVING, S.DELETING, None),
    (S.DELETING, 1, {}, RUNNING, SERVING, S.DELETING, A.DRAIN),
    (S.DELETING, 1, {}, RUNNING, QUIET, S.DELETING, A.DELETE),
    (S.DELETING, 9, {"requested": True}, machine(M.DELETING), None, S.DELETING, None),
    (S.DELETING, 1, {}, None, None, S.DELETING, A.REMOVE),
    (S.DELETING, 71, {}, None, SILENT, None, None),
]


@pytest.mark.parametrize(
    ("state", "seconds", "more", "found", "front", "expected", "action"),
    ROWS,
    ids=[f"{number}-{row[0].value}" for number, row in enumerate(ROWS)],
)
def test_next_step(
    state: ServerState,
    seconds: float,
    more: dict[str, Any],
    found: Machine | None,
    front: FrontEndServer | None,
    expected: ServerState | None,
    action: Action | None,
) -> None:
    record = ServerRecord("web-1", state, NOW - seconds, **more)
    step = next_step(record, ServerFacts(found, front), NOW, TIMES)
    assert (step.record.state if step.record else None, step.action) == (expected, action)


def test_every_state_has_rows() -> None:
    assert {row[0] for row in ROWS} == set(ServerState)


def test_reasons_quote_the_provider() -> None:
    record = ServerRecord("web-1", S.STARTING, NOW, requested=True)
    step = next_step(record, ServerFacts(machine(M.FAILED, "no host")), NOW, TIMES)
    assert step.record is not None
    assert step.record.reason == "the provider reports an error: no host"


def test_a_server_in_service_is_never_stopped_or_deleted_directly() -> None:
    assert not TRANSITIONS[S.IN_SERVICE] & {S.STOPPING, S.STOPPED, S.DELETING}
    assert not TRANSITIONS[S.JOINING] & {S.STOPPING, S.STOPPED, S.DELETING}


@pytest.mark.parametrize("state", ServerState)
def test_forbidden_transitions_are_errors(state: ServerState) -> None:
    record = ServerRecord("web-1", state, NOW)
    for other in set(ServerState) - TRANSITIONS[state]:
        with pytest.raises(ValueError, match="cannot change from"):
            record.to(other, NOW, "a test")
