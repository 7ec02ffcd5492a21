"""Waits until a provider reports the expected condition of a machine."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from lbdns_tools.scaler.providers.provider import Machine, MachineStatus, Provider

PATIENCE: Final = 60.0  # seconds; a loaded test machine may be slow, but a test must not hang
_STEP: Final = 0.02  # seconds between looks


async def find(provider: Provider, name: str) -> Machine | None:
    """Return the machine, or None if the provider does not list it. Its name must be unique."""
    found = [machine for machine in await provider.machines() if machine.name == name]
    assert len(found) <= 1, found
    return found[0] if found else None


async def until(provider: Provider, name: str, *statuses: MachineStatus) -> Machine:
    """Wait until the machine has one of ``statuses``, and return it."""
    end = time.monotonic() + PATIENCE
    while True:
        machine = await find(provider, name)
        if machine and machine.status in statuses:
            return machine
        assert time.monotonic() < end, f"{name} did not become {statuses}: {machine}"
        await asyncio.sleep(_STEP)


async def until_gone(provider: Provider, name: str) -> None:
    """Wait until the provider no longer lists the machine."""
    end = time.monotonic() + PATIENCE
    while machine := await find(provider, name):
        assert machine.status in (MachineStatus.DELETING, MachineStatus.STOPPING, MachineStatus.RUNNING), machine
        assert time.monotonic() < end, f"{name} was not deleted: {machine}"
        await asyncio.sleep(_STEP)
