"""Records as JSON, and records of servers that the scaler finds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.scaler.front_ends.front_end import FrontEndServer
from lbdns_tools.scaler.life_cycle.server_record import ServerFacts, ServerRecord, adopt, record_as_json, record_of_json
from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.providers.provider import Machine, MachineStatus

NUMBERS = st.floats(0, 1e12)


@given(
    st.builds(
        ServerRecord, st.text(max_size=20), st.sampled_from(ServerState), NUMBERS, st.booleans(), st.booleans(),
        NUMBERS, st.text(max_size=20), NUMBERS, NUMBERS, NUMBERS,
    )
)  # fmt: skip
def test_json_keeps_everything(record: ServerRecord) -> None:
    assert record_of_json(json.loads(json.dumps(record_as_json(record)))) == record


@pytest.mark.parametrize("values", [{}, {"name": "x", "state": "lost"}])
def test_malformed_records_are_errors(values: dict[str, str]) -> None:
    with pytest.raises((KeyError, ValueError, TypeError)):
        record_of_json(values)


@pytest.mark.parametrize(
    ("status", "front", "expected"),
    [
        (MachineStatus.BUILDING, None, "starting"),
        (MachineStatus.RUNNING, None, "configuring"),
        (MachineStatus.RUNNING, FrontEndServer(True, False), "in service"),
        (MachineStatus.RUNNING, FrontEndServer(False, True), "draining"),
        (MachineStatus.RUNNING, FrontEndServer(False, False), "configuring"),
        (MachineStatus.STOPPING, None, "stopping"),
        (MachineStatus.STOPPED, None, "stopped"),
        (MachineStatus.DELETING, None, "deleting"),
        (MachineStatus.FAILED, FrontEndServer(True, False), "failed"),
    ],
)
def test_adoption(status: MachineStatus, front: FrontEndServer | None, expected: str) -> None:
    record = adopt("web-1", ServerFacts(Machine("web-1", status), front), 5.0)
    assert (record.state.value, record.since) == (expected, 5.0)


def test_nothing_is_adopted_without_a_machine() -> None:
    with pytest.raises(ValueError, match="does not list this server"):
        adopt("web-1", ServerFacts(), 5.0)
