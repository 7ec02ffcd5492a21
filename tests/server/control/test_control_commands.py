"""Tests of override commands that arrive over HTTP: their effect is the same, and their pace is limited."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lbdns.process.duty_cycle import DutyCycle
from lbdns.server.control.control_commands import OverrideSteering
from lbdns_shared.errors import LastMemberError
from tests.server.control.desk import desk

PAUSE = 0.05  # seconds


async def test_commands_over_http_take_effect_and_name_their_author(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        steering = OverrideSteering(server.manager)
        reply = await steering({"command": "drain", "member": "frodo", "reason": "new kernel"}, "sam (web, 10.0.0.7)")
        assert reply["kept"] is True
        assert server.order() == ["bilbo", "gandalf"]
        assert server.recorded() == ["pool web: frodo drained by sam (web, 10.0.0.7): new kernel"]
        await steering({"command": "drain", "member": "bilbo"}, "sam")
        with pytest.raises(LastMemberError, match="gandalf is the last usable member"):
            await steering({"command": "drain", "member": "gandalf"}, "sam")


async def test_commands_over_http_come_one_at_a_time_with_pauses(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        steering = OverrideSteering(server.manager, DutyCycle(0.0, shortest=PAUSE))
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.gather(
            *(steering({"command": "weight", "member": "frodo", "factor": 2.0 + n}, "sam") for n in range(5))
        )
        assert loop.time() - began >= 4 * PAUSE
