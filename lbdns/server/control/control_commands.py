"""Handlers of the control commands: each takes a command as JSON and returns the reply as JSON."""

from __future__ import annotations

import asyncio
import pwd
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from lbdns.model.overrides import Override
from lbdns.process import program
from lbdns.process.duty_cycle import DutyCycle
from lbdns.server.control.command_pace import CommandPace
from lbdns.server.control.control_socket import CommandHandler, ControlCommand
from lbdns.server.control.override_manager import OverrideManager
from lbdns.server.control.override_request import COMMANDS, OverrideRequest, read_override_request
from lbdns.server.control.override_targets import OverrideTargets
from lbdns.server.server_status import ServerStatus
from lbdns_shared.errors import LastMemberError, LbdnsError

#: Override commands over HTTP take at most a tenth of the event loop's time: each replans pools, for 20 ms with 500
#: members and 500 overrides
STEERING_CYCLE: Final = DutyCycle(9.0, shortest=0.002, longest=1.0)
_UID_BITS: Final = 0xFFFFFFFF


def server_commands(
    path: Path, server: program.Program, take_over: CommandHandler, status: ServerStatus
) -> Mapping[str, CommandHandler]:
    """Return the server-wide commands' handlers, keyed by command name. ``path`` is the configuration file's path."""

    async def reload(command: ControlCommand) -> Mapping[str, Any]:
        await program.reload(server)
        return {"message": f"{path}: in force: {status.members.farm.size}"}

    async def explain(command: ControlCommand) -> Mapping[str, Any]:
        name = command.fields.get("name")
        if not isinstance(name, str):
            raise LbdnsError(
                'explain: the name is missing; send, for example, {"command": "explain", "name": "best.hobbit"}'
            )
        return {"explanation": await status.selection.explain(name)}

    return {"reload": reload, "take-over": take_over, "explain": explain}


def override_commands(manager: OverrideManager) -> Mapping[str, CommandHandler]:
    """Return the handlers of ``drain``, ``undrain``, ``force``, ``weight`` and ``overrides``, keyed by name."""

    async def change(command: ControlCommand) -> Mapping[str, Any]:
        by = await asyncio.to_thread(user_name, command.uid)
        try:
            return await change_overrides(manager, command.fields, by)
        except LastMemberError as error:
            raise LbdnsError(f"{error}. Use --force to proceed") from None

    async def show(command: ControlCommand) -> Mapping[str, Any]:
        failure = manager.store.failure
        in_force = [_document(manager, each) for each in manager.overrides.items]
        then = "overrides of other servers may be missing"
        cut_off = manager.sharing.cut_off_note(then) if manager.sharing else ""
        return {"in_force": in_force, "kept": not failure, "notes": [*_not_kept(failure), *filter(None, [cut_off])]}

    return {**dict.fromkeys(COMMANDS, change), "overrides": show}


class OverrideSteering:
    """Carries out override commands that arrive over HTTP, one at a time, with pauses.

    Commands on the control socket have pauses of their own, so commands over HTTP do not delay them.
    """

    def __init__(self, manager: OverrideManager, cycle: DutyCycle = STEERING_CYCLE) -> None:
        self._manager = manager
        self._pace = CommandPace(cycle)

    async def __call__(self, fields: Mapping[str, Any], by: str) -> Mapping[str, Any]:
        """Wait for the command's turn, and then carry it out with ``change_overrides``."""
        await self._pace.turn()
        return await change_overrides(self._manager, fields, by)


async def change_overrides(manager: OverrideManager, fields: Mapping[str, Any], by: str) -> Mapping[str, Any]:
    """Carry out the override command described by ``fields`` for the user ``by``, and return the reply.

    Raises LbdnsError, and in particular LastMemberError if the command requires ``--force``.
    """
    request = read_override_request(fields)
    targets, ended = await manager.carry_out(request, by)
    unshared = await manager.sharing.settle(targets.full_names) if manager.sharing else ""
    failure = await manager.save()
    concerned = [each for each in manager.overrides.items if each.member in targets.full_names]
    return {
        "members": list(targets.full_names),
        "in_force": [_document(manager, each) for each in concerned],
        "ended": [each.document() for each in ended],
        "kept": not failure,
        "notes": [*_notes(concerned), *_not_joined(targets, request), *_not_kept(failure), *filter(None, [unshared])],
    }


def _document(manager: OverrideManager, override: Override) -> dict[str, Any]:
    return {**override.document(), "pools": manager.events.pools(override), "text": override.text()}


def _notes(overrides: Iterable[Override]) -> list[str]:
    """Return notes about effects that the sender of a command may not expect."""
    slots: dict[str, set[str]] = {}
    for override in overrides:
        slots.setdefault(override.member, set()).add(override.slot)
    return [
        f"{member} is drained; a drain takes precedence over a forced state"
        for member, found in slots.items()
        if {"drain", "force"} <= found
    ]


def _not_joined(targets: OverrideTargets, request: OverrideRequest) -> list[str]:
    if not request.ahead or targets.pools:
        return []
    return [f"{name} has not joined yet; it will be drained from the moment it joins" for name in targets.full_names]


def _not_kept(failure: str) -> list[str]:
    return [f"{failure}; the override stays in force only until the server stops"] if failure else []


def user_name(uid: int) -> str:
    """Return the name of a user. Call this function in a separate thread, because the lookup may be slow."""
    uid &= _UID_BITS  # user ids are unsigned in the kernel
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return f"uid {uid}"
