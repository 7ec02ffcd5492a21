"""Tests of the state of the connection to a bus."""

from __future__ import annotations

from lbdns.bus.bus_state import BusState


def test_a_server_makes_the_connection() -> None:
    state = BusState()
    assert (state.connected, state.problem) == (False, "not connected yet")
    state.server, state.problem = "nats://10.0.0.5:4222", ""
    assert state.connected
