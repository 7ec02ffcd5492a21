"""What takes orders about members, with an answerer in this process, files in a folder of the test, and a clock."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lbdns.answering.table import Table
from lbdns.events import Events
from lbdns.farm import Farm
from lbdns.server.alone import Alone
from lbdns.server.orders.control import Order
from lbdns.server.orders.override_file import FILE_NAME
from lbdns.server.orders.overriding import Overriding
from tests.answering.farms import MEMBERS, hobbit, pool
from tests.server.clients import until
from tests.server.readings import Readings

TWO_POOLS = hobbit(pool(), pool("mail", members=("frodo", "gandalf"), names={"post": "round_robin"}))


def kept_in(folder: Path, farm: Farm) -> Farm:
    """The farm with its state there."""
    config = farm.config
    return replace(farm, config=replace(config, server=replace(config.server, state_dir=folder)))


class Desk:
    """Takes orders for a farm whose members all report."""

    def __init__(self, farm: Farm) -> None:
        self.ahead = 0.0  # s by which the wall clock has been set forward
        self.farm = farm
        self.events = Events()
        self.table = Table(farm)
        self.alone = Alone(self.table, (b"0123456789abcdef",), events=self.events)
        self.overriding = Overriding(farm, self.alone, self.events, lambda: time.time() + self.ahead)
        self.readings = Readings()
        self._sock = socket.socket()

    async def say(self, command: str, member: str = "frodo", *, uid: int = 0, **words: Any) -> Mapping[str, Any]:
        order = Order({"command": command, "member": member, **words}, self._sock, uid)
        answer = await self.overriding.commands[command](order)
        assert answer is not None
        return answer

    def report(self, *members: str, **more: Any) -> None:
        now = self.alone.planner._loop.time()
        self.alone.deliver(self.readings.report(now, members=members or MEMBERS, **more))

    def order(self, pool: str = "web", policy: str = "round_robin") -> list[str]:
        """Who is handed out, in the pool's order."""
        members = next(p.members for p in self.farm.pools if p.name == pool)
        return [members[i].name for i in sorted(set(self.table.handouts[pool, policy].plan.order))]

    def is_planned(self) -> bool:
        """Whether all pools are planned by what was reported and ordered: on a slow machine that takes some turns."""
        return not self.alone.planner._due

    def told(self) -> list[str]:
        """What the events of orders say."""
        return [event.text for event in self.events.newest() if event.kind == "override"]

    @property
    def file(self) -> Path:
        return self.farm.config.server.state_dir / FILE_NAME

    async def close(self) -> None:
        await self.overriding.stop()
        await self.alone.stop()
        self._sock.close()


@asynccontextmanager
async def desk(folder: Path, farm: Farm | None = None) -> AsyncIterator[Desk]:
    """Started as a server starts."""
    taking = Desk(kept_in(folder, farm or hobbit()))
    try:
        await taking.overriding.restore()
        taking.overriding.begin()
        taking.report()
        await until(taking.is_planned)
        yield taking
    finally:
        await taking.close()
