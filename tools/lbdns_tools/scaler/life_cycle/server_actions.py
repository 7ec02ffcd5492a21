"""Performs actions on servers: requests to the provider and the front end, probes and benchmarks."""

from __future__ import annotations

from typing import Final, Protocol

from lbdns_tools.scaler.front_ends.front_end import FrontEnd
from lbdns_tools.scaler.life_cycle.next_step import Action
from lbdns_tools.scaler.life_cycle.server_record import ServerFacts, ServerRecord
from lbdns_tools.scaler.life_cycle.web_probe import WebProbe
from lbdns_tools.scaler.providers.provider import Provider, QuotaError

_OF_PROVIDER: Final = frozenset({Action.CREATE, Action.START, Action.STOP, Action.DELETE})


class UserData(Protocol):
    """Generates the script that a new server runs at its first boot."""

    def __call__(self, name: str) -> str:
        """Return the script for the server ``name``. Raises LbdnsError."""
        ...


class ServerActions:
    """Performs one action at a time on a server, and returns what a benchmark measured."""

    def __init__(self, provider: Provider, front_end: FrontEnd, probe: WebProbe, user_data: UserData) -> None:
        self._provider, self._front_end, self._probe, self._user_data = provider, front_end, probe, user_data

    async def perform(self, action: Action, record: ServerRecord, facts: ServerFacts) -> float:
        """Perform ``action``, and return the measured capacity in requests/s (0 except after a benchmark).

        Raises LbdnsError if the action fails.
        """
        name = record.name
        addresses = facts.machine.addresses if facts.machine else ()
        if action is Action.BENCHMARK:
            return await self._probe.benchmark(addresses)
        if action in _OF_PROVIDER:
            await self._ask_provider(action, name)
        elif action is Action.PROBE:
            await self._probe.probe(addresses)
        else:
            await self._ask_front_end(action, record, addresses)
        return 0.0

    async def _ask_provider(self, action: Action, name: str) -> None:
        match action:
            case Action.CREATE:
                await self._create(name)
            case Action.START:
                await self._provider.start(name)
            case Action.STOP:
                await self._provider.stop(name)
            case Action.DELETE:
                await self._provider.delete(name)

    async def _create(self, name: str) -> None:
        await self._front_end.hold_back(name)
        try:
            await self._provider.create(name, self._user_data(name))
        except QuotaError:
            await self._front_end.remove(name)  # the caller forgets the server
            raise

    async def _ask_front_end(self, action: Action, record: ServerRecord, addresses: tuple[str, ...]) -> None:
        match action:
            case Action.ADD:
                await self._front_end.add(record.name, addresses)
            case Action.DRAIN:
                await self._front_end.drain(record.name, record.reason)
            case Action.UNDRAIN:
                if addresses:  # a spare may have started with another address than before
                    await self._front_end.add(record.name, addresses)
                await self._front_end.undrain(record.name)
            case Action.REMOVE:
                await self._front_end.remove(record.name)
