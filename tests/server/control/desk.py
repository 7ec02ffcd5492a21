"""A fixture for tests of override commands: an answerer in the test's process, a state folder, and a clock."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lbdns.answering.answer_table import AnswerTable
from lbdns.bus.bus_connection import BusConnection
from lbdns.events.event_log import EventLog
from lbdns.model.farm import Farm
from lbdns.server.control.control_commands import override_commands
from lbdns.server.control.control_socket import ControlCommand
from lbdns.server.control.override_file import FILE_NAME
from lbdns.server.control.override_manager import OverrideManager
from lbdns.server.control.override_sharing import OverrideSharing
from lbdns.server.local_answerer import LocalAnswerer
from tests.answering.farms import MEMBERS, hobbit, pool
from tests.collector.collector_fixtures import KEY
from tests.server.clients import until
from tests.server.readings import Readings

TWO_POOLS = hobbit(pool(), pool("mail", members=("frodo", "gandalf"), names={"post": "round_robin"}))


def kept_in(folder: Path, farm: Farm) -> Farm:
    """Return the farm with ``folder`` as its state folder."""
    config = farm.config
    return replace(farm, config=replace(config, server=replace(config.server, state_dir=folder)))


class Desk:
    """Carries out override commands for a farm whose members all report."""

    def __init__(self, farm: Farm, bus: BusConnection | None = None) -> None:
        self.ahead = 0.0  # s by which the wall clock has been set forward
        self.farm = farm
        self.events = EventLog()
        self.table = AnswerTable(farm)
        self.answerer = LocalAnswerer(self.table, (b"0123456789abcdef",), events=self.events)
        self.sharing = OverrideSharing(bus or BusConnection(self.events), (KEY,), self.events)
        self.manager = OverrideManager(farm, self.answerer, self.events, lambda: time.time() + self.ahead, self.sharing)
        self.readings = Readings()
        self._sock = socket.socket()

    async def say(self, command: str, member: str = "frodo", *, uid: int = 0, **words: Any) -> Mapping[str, Any]:
        order = ControlCommand({"command": command, "member": member, **words}, self._sock, uid)
        answer = await override_commands(self.manager)[command](order)
        assert answer is not None
        return answer

    def report(self, *members: str, **more: Any) -> None:
        now = self.answerer.planner._loop.time()
        self.answerer.deliver(self.readings.report(now, members=members or MEMBERS, **more))

    def order(self, pool: str = "web", policy: str = "round_robin") -> list[str]:
        """Return the members in the plan, in the pool's order."""
        members = next(p.members for p in self.farm.pools if p.name == pool)
        return [members[i].name for i in sorted(set(self.table.cursors[pool, policy].plan.order))]

    def is_planned(self) -> bool:
        """Return whether all pools are planned. On a slow machine, planning takes several turns of the event loop."""
        return not self.answerer.planner._due

    def recorded(self) -> list[str]:
        """Return the texts of all logged events about overrides."""
        return [event.text for event in self.events.newest() if event.kind == "override"]

    @property
    def file(self) -> Path:
        return self.farm.config.server.state_dir / FILE_NAME

    async def close(self) -> None:
        await self.manager.stop()
        await self.answerer.stop()
        self._sock.close()


@asynccontextmanager
async def desk(folder: Path, farm: Farm | None = None, bus: BusConnection | None = None) -> AsyncIterator[Desk]:
    """Create and start a ``Desk`` as a server would. With ``bus``, it shares its overrides if ``farm`` says so."""
    taking = Desk(kept_in(folder, farm or hobbit()), bus)
    try:
        await taking.manager.restore()
        taking.manager.begin()
        taking.report()
        await until(taking.is_planned)
        yield taking
    finally:
        await taking.close()
