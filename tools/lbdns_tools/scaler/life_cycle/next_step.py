"""Decides on the next step for one server: a pure function of the server's record, the observed facts, and the time.

The caller performs one action at a time on each server, and calls `next_step` again with newer facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from lbdns.config import value_readers as read
from lbdns_tools.scaler.life_cycle.server_record import ServerFacts, ServerRecord
from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.providers.provider import MachineStatus

S = ServerState
RETRY: Final = 5.0  # seconds between two attempts at the same action


class Action(Enum):
    """An action that the scaler takes on one server."""

    CREATE = "create"
    START = "start"
    STOP = "stop"
    DELETE = "delete"
    PROBE = "probe"  # request a page, to learn whether the web server responds
    BENCHMARK = "benchmark"
    ADD = "add"  # let the front end send clients
    DRAIN = "drain"
    UNDRAIN = "undrain"
    REMOVE = "remove"  # make the front end forget the server


@dataclass(frozen=True, slots=True)
class LifeTimes:
    """The section ``[times]`` of scaler.toml: time limits for the stages of a server's life, in seconds."""

    start: float = read.duration(600.0, 1.0)  # from the request until the server runs
    configure: float = read.duration(600.0, 1.0)  # from then until the web server responds and is benchmarked
    join: float = read.duration(120.0, 1.0)  # from then until the front end sends clients
    silent: float = read.duration(60.0, 1.0)  # out of service until a server is replaced
    resolvers: float = read.duration(30.0)  # for which resolvers may keep an answer that names a drained server
    quiet: float = read.duration(3.0)  # without a connection before a drained server counts as unused
    drain: float = read.duration(600.0, 1.0)  # until a drained server is stopped in spite of open connections
    stop: float = read.duration(300.0, 1.0)  # from the request until the server has stopped


@dataclass(frozen=True, slots=True)
class NextStep:
    """The next step of one server: its new record, or an action, or both, or neither (wait).

    ``record`` is None if the server no longer exists.
    """

    record: ServerRecord | None
    action: Action | None = None


def next_step(record: ServerRecord, facts: ServerFacts, now: float, times: LifeTimes) -> NextStep:
    """Return the next step for a server. ``now`` is in Unix seconds."""
    return _STEPS[record.state](record, facts, now, times)


def _wanted(record: ServerRecord, facts: ServerFacts, now: float, times: LifeTimes) -> NextStep:
    if facts.machine:  # the provider accepted the request, but the scaler ended before it noted that
        return NextStep(record.to(S.STARTING, now, "requested", requested=True))
    return _request(record, now, Action.CREATE, times)


def _request(record: ServerRecord, now: float, action: Action, times: LifeTimes) -> NextStep:
    """Request ``action`` from the provider. If the provider refuses, repeat the request every RETRY seconds, for at
    most ``times.start`` seconds."""
    if now - record.since > times.start:
        return NextStep(record.to(S.FAILED, now, f"the provider did not accept the request within {times.start:g} s"))
    return NextStep(record, action if _may_act(record, now) else None)


def _starting(record: ServerRecord, facts: ServerFacts, now: float, times: LifeTimes) -> NextStep:
    machine = facts.machine
    if not record.requested:  # a stopped server that is to start
        if machine is None:
            return _fail(record, now, _lost(facts))
        return _request(record, now, Action.START, times)
    if machine and machine.status is MachineStatus.FAILED:
        return _fail(record, now, f"the provider reports an error: {machine.detail or 'no details'}")
    if machine and machine.status is MachineStatus.RUNNING and machine.addresses:
        return NextStep(record.to(S.CONFIGURING, now, "the server runs"))
    if now - record.since > times.start:
        what = f"the server is {machine.status.value}" if machine else "the provider lists no server"
        return _fail(record, now, f"not running after {times.start:g} s: {what}")
    return NextStep(record)


def _before_service(record: ServerRecord, facts: ServerFacts, now: float, times: LifeTimes) -> NextStep:
    """Return the next step for a server whose web server is starting or whose capacity is being measured."""
    if lost := _lost(facts):
        return _fail(record, now, lost)
    if now - record.since > times.configure:
        return _fail(record, now, f"the web server did not respond within {times.configure:g} s")
    if facts.front and facts.front.serving and now - record.drain_asked >= RETRY:
        # A machine that the scaler has adopted may serve already; new ones are held back from the start. If the front
        # end refuses to drain its only server, the checks go on
        return NextStep(record, Action.DRAIN)
    action = Action.PROBE if record.state is S.CONFIGURING else Action.BENCHMARK
    return NextStep(record, action if _may_act(record, now, 1.0) else None)


def _joining(record: ServerRecord, facts: ServerFacts, now: float, times: LifeTimes) -> NextStep:
    if lost := _lost(facts):
        return _fail(record, now, lost)
    front = facts.front
    if front and (front.serving or front.held):
        why = "the front end sends it clients" if front.serving else "an operator keeps clients away from it"
        return NextStep(record.to(S.IN_SERVICE, now, why))
    if now - record.since > times.join:
        return _fail(record, now, f"the front end sent it no clients within {times.join:g} s")
    if front and front.drained:
        return NextStep(record, Action.UNDRAIN if _may_act(record, now, 1.0) else None)
    return NextStep(record, Action.ADD if _may_act(record, now) else None)


def _in_service(record: ServerRecord, facts: ServerFacts, now: float, times: LifeTimes) -> NextStep:
    if lost := _lost(facts):
        return _fail(record, now, lost)
    front = facts.front
    if front and (front.serving or front.held):  # what an operator orders is no failure
        return NextStep(record if not record.quiet_since else _silent_since(record, 0.0))
    record = record if record.quiet_since else _silent_since(record, now)
    if now - record.quiet_since > times.silent:
        return _fail(record, now, f"out of service for {times.silent:g} s")
    # A drain may have been requested before the server was wanted again, and a balancer that has been restarted may
    # have forgotten the server
    is_drained = front is not None and front.drained
    action, pause = (Action.UNDRAIN, 1.0) if is_drained else (Action.ADD, RETRY)
    return NextStep(record, action if _may_act(record, now, pause) else None)


def _draining(record: ServerRecord, facts: ServerFacts, now: float, times: LifeTimes) -> NextStep:
    machine, front = facts.machine, facts.front
    if machine is None or machine.status in (MachineStatus.FAILED, MachineStatus.STOPPED):
        return NextStep(record.to(S.DELETING, now, _lost(facts) or "the server has stopped"))
    if front is not None and front.held:
        return NextStep(record)  # until the operator's order ends
    if front is not None and not front.drained:
        return NextStep(record, Action.DRAIN if _may_act(record, now, 1.0) else None)
    connections = front.connections if front else 0.0
    # An unknown number of connections is waited out
    quiet = connections == 0.0
    if quiet != bool(record.quiet_since):
        record = _silent_since(record, now if quiet else 0.0)
    elapsed = now - record.since
    unused = quiet and now - record.quiet_since >= times.quiet and elapsed >= times.resolvers
    if not unused and elapsed < times.drain:
        return NextStep(record)
    why = "drained, and no connections are left" if unused else f"drained for {times.drain:g} s"
    return NextStep(record.to(S.STOPPING if record.keep else S.DELETING, now, why))


def _stopping(record: ServerRecord, facts: ServerFacts, now: float, times: LifeTimes) -> NextStep:
    machine = facts.machine
    if machine is None:
        return _fail(record, now, "the provider lists no server")
    if machine.status is MachineStatus.STOPPED:
        return NextStep(record.to(S.STOPPED, now, "kept as a spare"))
    if now - record.since > times.stop:
        return _fail(record, now, f"not stopped after {times.stop:g} s: the server is {machine.status.value}")
    return NextStep(record, Action.STOP if not record.requested and _may_act(record, now) else None)


def _stopped(record: ServerRecord, facts: ServerFacts, now: float, _: LifeTimes) -> NextStep:
    if facts.machine is None:
        return NextStep(None)
    if facts.machine.status is MachineStatus.FAILED:
        return _fail(record, now, f"the provider reports an error: {facts.machine.detail or 'no details'}")
    if facts.machine.status is MachineStatus.DELETING:
        return NextStep(record.to(S.DELETING, now, "another program is deleting the server", requested=True))
    if facts.machine.status is MachineStatus.RUNNING:  # an operator has started it: no server may run unnoticed
        return NextStep(record.to(S.STARTING, now, "the server runs again", requested=True))
    return NextStep(record)


def _failed(record: ServerRecord, facts: ServerFacts, now: float, times: LifeTimes) -> NextStep:
    return _drain_first(record, facts, now, times) or NextStep(record.to(S.DELETING, now, record.reason))


def _deleting(record: ServerRecord, facts: ServerFacts, now: float, times: LifeTimes) -> NextStep:
    machine = facts.machine
    if machine is None:  # after REMOVE has succeeded, the caller forgets the server
        if now - record.since > times.stop:
            return NextStep(None)
        return NextStep(record, Action.REMOVE if _may_act(record, now, 1.0) else None)
    if drain := _drain_first(record, facts, now, times):
        return drain
    is_being_deleted = record.requested and machine.status is MachineStatus.DELETING
    return NextStep(record, Action.DELETE if not is_being_deleted and _may_act(record, now) else None)


def _drain_first(record: ServerRecord, facts: ServerFacts, now: float, times: LifeTimes) -> NextStep | None:
    """Return the step that drains a server to which clients are still sent, or None if there is nothing to drain.

    If the front end still refuses after ``times.silent`` seconds, the server is deleted without being drained.
    """
    if not (facts.front and facts.front.serving) or now - record.since > times.silent:
        return None
    return NextStep(record, Action.DRAIN if _may_act(record, now, 1.0) else None)


def _lost(facts: ServerFacts) -> str:
    """Return the reason why a server that should be running is not, or an empty string if it is running."""
    machine = facts.machine
    if machine is None:
        return "the server has disappeared"
    if machine.status is MachineStatus.RUNNING:
        return ""
    return f"the server is {machine.status.value}" + (f": {machine.detail}" if machine.detail else "")


def _fail(record: ServerRecord, now: float, reason: str) -> NextStep:
    return NextStep(record.to(S.FAILED, now, reason))


def _may_act(record: ServerRecord, now: float, pause: float = RETRY) -> bool:
    """Return whether enough time has passed since the last action on the server."""
    return now - record.asked >= pause


def _silent_since(record: ServerRecord, moment: float) -> ServerRecord:
    return replace(record, quiet_since=moment)


_STEPS: Final[Mapping[ServerState, Callable[[ServerRecord, ServerFacts, float, LifeTimes], NextStep]]] = {
    S.WANTED: _wanted,
    S.STARTING: _starting,
    S.CONFIGURING: _before_service,
    S.BENCHMARKING: _before_service,
    S.JOINING: _joining,
    S.IN_SERVICE: _in_service,
    S.DRAINING: _draining,
    S.STOPPING: _stopping,
    S.STOPPED: _stopped,
    S.FAILED: _failed,
    S.DELETING: _deleting,
}
