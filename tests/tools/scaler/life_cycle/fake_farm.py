"""A provider, a front end and a web probe in memory, with a clock of their own, which check the scaler's promises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lbdns_tools.scaler.front_ends.front_end import FrontEndError, FrontEndServer
from lbdns_tools.scaler.life_cycle.fleet import Fleet
from lbdns_tools.scaler.life_cycle.next_step import LifeTimes
from lbdns_tools.scaler.life_cycle.scaling_plan import FleetLimits, scaling_plan
from lbdns_tools.scaler.life_cycle.server_actions import ServerActions
from lbdns_tools.scaler.life_cycle.web_probe import BenchmarkSettings, ProbeError
from lbdns_tools.scaler.providers.provider import Machine, MachineStatus, ProviderError, QuotaError

TIMES = LifeTimes(start=60, configure=60, join=30, silent=10, resolvers=5, quiet=2, drain=40, stop=30)
M = MachineStatus


class KilledError(Exception):
    """Stands for SIGKILL: the scaler does nothing more."""


@dataclass
class FakeFarm:
    """Machines that take ``boot`` seconds to start and join by themselves. Names in ``broken`` fail to start."""

    boot: float = 3.0
    quota_left: int | None = None
    broken: frozenset[str] = frozenset()
    mute: frozenset[str] = frozenset()  # machines whose web server never responds
    slow: Mapping[str, float] = field(default_factory=dict)  # requests/s that a benchmark measures; 100 for others
    connections: float = 0.0
    now: float = 1_000_000.0
    found: dict[str, Machine] = field(default_factory=dict)
    drained: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    ready_at: dict[str, float] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    broken_promises: list[str] = field(default_factory=list)
    calls: int = 0  # requests so far that change something
    killed_at: int = 0  # the scaler is killed during this request; 0: never
    killed_after: bool = False  # whether the request was still carried out
    dead: bool = False
    down: str = ""  # the provider's error for all requests; empty if it works
    front_down: str = ""
    refusal: str = ""  # the provider's error for requests to create; empty if it accepts them
    undeletable: bool = False  # whether the provider refuses to delete
    uptime: float = 0.0  # the steady clock

    # The clock

    def jump(self, seconds: float) -> None:
        """Set the clock forward or back."""
        self.now += seconds
        self.ready_at = {name: time + seconds for name, time in self.ready_at.items()}

    def advance(self, seconds: float) -> None:
        """Let time pass, and machines boot and stop."""
        self.now += seconds
        self.uptime += seconds
        for name, machine in list(self.found.items()):
            if self.now < self.ready_at.get(name, 0.0):
                continue
            if machine.status is M.BUILDING:
                status = M.FAILED if name in self.broken else M.RUNNING
                detail = "no valid host was found" if name in self.broken else ""
                self.found[name] = replace(machine, status=status, detail=detail, addresses=(f"127.0.9.{len(name)}",))
            elif machine.status is M.STOPPING:
                self.found[name] = replace(machine, status=M.STOPPED, created=0.0)
            elif machine.status is M.DELETING:
                del self.found[name]

    def serving(self, name: str) -> bool:
        """Return whether new clients are sent to a machine."""
        machine = self.found.get(name)
        running = machine is not None and machine.status is M.RUNNING and name not in self.mute
        return running and name not in self.drained and name not in self.held

    def _check(self) -> None:
        if self.down:
            raise ProviderError(self.down)

    def _request(self, carry_out: Callable[[], None]) -> None:
        """Carry out a request, or only a half of it if the scaler is killed meanwhile."""
        if self.dead:
            raise KilledError
        self.calls += 1
        self.dead = self.calls == self.killed_at
        if not self.dead or self.killed_after:
            carry_out()
        if self.dead:
            raise KilledError

    # Provider

    async def machines(self) -> tuple[Machine, ...]:
        self._check()
        return tuple(self.found.values())

    async def quota(self) -> int | None:
        return self.quota_left

    async def create(self, name: str, user_data: str) -> None:
        self._request(lambda: self._create(name))

    def _create(self, name: str) -> None:
        self._check()
        if self.refusal:
            raise ProviderError(self.refusal)
        if name in self.found:
            return
        if self.quota_left is not None and len(self.found) >= self.quota_left:
            raise QuotaError("no machine is left")
        self.created.append(name)
        self.found[name] = Machine(name, M.BUILDING, created=self.now)
        self.ready_at[name] = self.now + self.boot

    async def start(self, name: str) -> None:
        self._request(lambda: self._start(name))

    def _start(self, name: str) -> None:
        self._check()
        if self.found[name].status is M.STOPPED:
            self.found[name] = replace(self.found[name], status=M.BUILDING, created=self.now)
            self.ready_at[name] = self.now + self.boot / 2

    async def stop(self, name: str) -> None:
        self._request(lambda: self._stop(name))

    def _stop(self, name: str) -> None:
        self._gone("stopped", name)
        self.found[name] = replace(self.found[name], status=M.STOPPING)
        self.ready_at[name] = self.now + 1

    async def delete(self, name: str) -> None:
        self._request(lambda: self._delete(name))

    def _delete(self, name: str) -> None:
        if self.undeletable:
            raise ProviderError("no permission to delete")
        if name in self.found:
            self._gone("deleted", name)
            self.found[name] = replace(self.found[name], status=M.DELETING)
            self.ready_at[name] = self.now + 1

    def _gone(self, what: str, name: str) -> None:
        self._check()
        if self.serving(name):
            self.broken_promises.append(f"{name} was {what} while clients were sent to it")

    # Front end

    async def servers(self) -> Mapping[str, FrontEndServer]:
        if self.front_down:
            raise FrontEndError(self.front_down)
        running = (name for name, machine in self.found.items() if machine.status is M.RUNNING)
        return {
            name: FrontEndServer(
                self.serving(name), name in self.drained, self.connections, name in self.held
            )
            for name in running
            if name not in self.mute
        }  # fmt: skip

    async def hold_back(self, name: str) -> None:
        self._request(lambda: self.drained.add(name))

    async def add(self, name: str, addresses: tuple[str, ...]) -> None:
        """Hosts join by themselves."""

    async def drain(self, name: str, reason: str) -> None:
        self._request(lambda: self._drain(name))

    def _drain(self, name: str) -> None:
        if sum(self.serving(other) for other in self.found) <= 1 and self.serving(name):
            raise FrontEndError("the pool would be left without a usable member")
        self.drained.add(name)

    async def undrain(self, name: str) -> None:
        self._request(lambda: self._undrain(name))

    def _undrain(self, name: str) -> None:
        self.drained.discard(name)

    async def remove(self, name: str) -> None:
        self._request(lambda: self._remove(name))

    def _remove(self, name: str) -> None:
        self.drained.discard(name)

    async def close(self) -> None:
        """Nothing is open."""

    # Web probe

    async def probe(self, addresses: tuple[str, ...]) -> None:
        if not addresses:
            raise ProbeError("no address")

    async def benchmark(self, addresses: tuple[str, ...]) -> float:
        return 100.0


class FakeProbe:
    """A web probe that measures what ``FakeFarm.slow`` says. The machine is known by its address."""

    def __init__(self, farm: FakeFarm) -> None:
        self._farm = farm

    async def probe(self, addresses: tuple[str, ...]) -> None:
        name = self._name(addresses)
        if name in self._farm.mute:
            raise ProbeError("GET /: connection refused")

    async def benchmark(self, addresses: tuple[str, ...]) -> float:
        return self._farm.slow.get(self._name(addresses), 100.0)

    def _name(self, addresses: tuple[str, ...]) -> str:
        return next(name for name, machine in self._farm.found.items() if machine.addresses == addresses)


class MortalFleet(Fleet):
    """A fleet that writes nothing more once it has been killed."""

    def _save(self) -> bool:
        return (isinstance(self._provider, FakeFarm) and self._provider.dead) or super()._save()


class FleetDriver:
    """A fleet on a fake farm. Every look advances the clock by one second."""

    def __init__(
        self, farm: FakeFarm, folder: Path, benchmark: BenchmarkSettings | None = None, spares: int = 0
    ) -> None:
        self.farm, self.folder, self.benchmark, self.spares = farm, folder, benchmark, spares
        self.fleet = self._make()

    def _make(self) -> Fleet:
        actions = ServerActions(self.farm, self.farm, FakeProbe(self.farm), lambda name: f"#!/bin/sh\n# {name}\n")  # type: ignore[arg-type]
        file = self.folder / "servers.json"
        clocks = lambda: self.farm.now, lambda: self.farm.uptime
        return MortalFleet(self.farm, self.farm, actions, TIMES, self.benchmark, file, *clocks)

    def restart(self) -> None:
        """Forget everything that is not in the file or at the provider, as after a crash."""
        self.farm.dead = False
        self.fleet = self._make()

    async def look(self, seconds: int = 1) -> None:
        """Look once a second, and let actions end in between."""
        for _ in range(seconds):
            self.farm.advance(1.0)
            await self.fleet.look()
            await settle()
            if self.farm.dead:
                self.restart()

    async def want(self, wanted: int, seconds: int = 0) -> None:
        """Apply a plan for ``wanted`` servers in service, then look for some seconds."""
        fleet = self.fleet
        limits = FleetLimits(self.spares, fleet.quota)
        changes = scaling_plan(
            list(fleet.records.values()), wanted, self.farm.now, "a test", limits, "web-", fleet.highest,
            held=fleet.held,
        )  # fmt: skip
        fleet.apply(changes)
        await settle()
        await self.look(seconds)

    def states(self) -> dict[str, str]:
        """Return the state of each server by name."""
        return {name: record.state.value for name, record in self.fleet.records.items()}

    def count(self, state: str) -> int:
        """Return the number of servers in a state."""
        return sum(found == state for found in self.states().values())


async def settle() -> None:
    """Let all tasks that need no clock run to their end."""
    for _ in range(6):
        await asyncio.sleep(0)
