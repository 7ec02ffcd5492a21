"""The control commands about the server as a whole: ``reload`` and ``explain``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from lbdns.model.farm import Farm
from lbdns.process import program
from lbdns.server.control.control_socket import CommandHandler, ControlCommand
from lbdns.server.server_status import ServerStatus
from lbdns_shared.errors import LbdnsError


class ReloadableServer(program.Program, Protocol):
    """A program with the farm that is in force."""

    @property
    def farm(self) -> Farm: ...


def server_commands(path: Path, server: ReloadableServer, status: ServerStatus) -> Mapping[str, CommandHandler]:
    """Return the handlers by command; ``path`` is the configuration's."""

    async def reload(command: ControlCommand) -> Mapping[str, Any]:
        await program.reload(server)
        return {"message": f"{path}: in force: {len(server.farm.zones)} zones, {len(server.farm.pools)} pools"}

    async def explain(command: ControlCommand) -> Mapping[str, Any]:
        name = command.fields.get("name")
        if not isinstance(name, str):
            raise LbdnsError('explain: name: is missing; send {"command": "explain", "name": "best.hobbit"}')
        return {"explanation": await status.selection.explain(name)}

    return {"reload": reload, "explain": explain}
