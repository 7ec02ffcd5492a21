"""A farm that runs: every machine of it in a namespace and control groups of its own, for as long as it is needed."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Self

from lbdns.errors import LbdnsError
from lbdns_tools.lab import network
from lbdns_tools.lab.addresses import DNS, HUB, Machine, machines
from lbdns_tools.lab.farm import Farm, WebHost
from lbdns_tools.lab.front import lbdns as front
from lbdns_tools.lab.front import proxies, resolvers
from lbdns_tools.lab.groups import TOP, Group, make_group
from lbdns_tools.lab.place import Place
from lbdns_tools.lab.programs import Programs, Running
from lbdns_tools.lab.traces_left import new_id, record
from lbdns_tools.lab.web import agent, apache, content

SETTLED_S: Final = 90.0  # a host with 0.07 cores needs half a minute to work off what a killed load has left it
IDLE_PERCENT: Final = 80.0
LOOK_S: Final = 0.2


class Lab:
    """Builds a farm when it is entered and removes every trace of it when it is left. Needs root.

    ``groups`` are what can be sampled: each machine's name, and ``NAME-agent`` for the agent of a web host.
    Everything raises LbdnsError.
    """

    def __init__(self, farm: Farm) -> None:
        self.farm = farm
        self.id = new_id()
        self.machines: dict[str, Machine] = {machine.name: machine for machine in machines(farm)}
        self.places: dict[str, Place] = {}
        self.groups: dict[str, Group] = {}
        self._stack = ExitStack()
        self._web: dict[str, Running] = {}
        self._agents: dict[str, Running] = {}
        self._lbdns: Running | None = None
        self._site: front.Site
        self.programs: Programs
        self.folder: Path

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._build(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    # What it is made of

    def _build(self, stack: ExitStack) -> None:
        traces = record(self.id)
        stack.callback(traces.remove)
        self.folder = traces.folder
        network.build(self.id, tuple(self.machines.values()))
        make_group(f"{TOP}/{self.id}").favour()
        for name, machine in self.machines.items():
            group = make_group(f"{TOP}/{self.id}/{name}")
            self.places[name] = Place(machine, network.namespace_of(self.id, name), group)
            if name != HUB:
                self.groups[name] = group
        self._ask(DNS)  # before anything is started: programs see the file that was there then
        for host in self.farm.hosts:
            self.groups[host.name].limit_cpu(host.cpu, self.farm.cpu_period)
            if host.memory:
                self.groups[host.name].limit_memory(host.memory)
            if not self.farm.agents_inside:
                self.groups[f"{host.name}-agent"] = make_group(f"{TOP}/{self.id}/{host.name}-agent")
        logs = self.folder / "logs"
        logs.mkdir()
        self.programs = stack.enter_context(Programs(logs))
        content.write_content(self.folder / "content")
        self._site = front.write_site(self.farm, tuple(self.machines.values()), self.folder / DNS)
        for host in self.farm.hosts:
            self.start_web(host.name)
        self._start_choosing()
        for name, machine in self.machines.items():
            if machine.kind == "resolver":
                resolvers.start(self.programs, self.places[name], self.machines[DNS], self.farm, self.folder / name)
        self.settle()

    def _start_choosing(self) -> None:
        self._lbdns = front.serve(self.programs, self.places[DNS], self._site)
        for host in self.farm.hosts:
            self.start_agent(host.name)

    def _ask(self, *servers: str) -> None:
        """Each client host asks one of these."""
        for number, place in enumerate(self.clients()):
            server = self.machines[servers[number % len(servers)]]
            place.resolv_conf(f"nameserver {server.address}", "options timeout:2 attempts:3")
        for place in self.places.values():
            if place.machine.kind != "client":
                place.resolv_conf(f"nameserver {self.machines[DNS].address}")

    def host(self, name: str) -> WebHost:
        for host in self.farm.hosts:
            if host.name == name:
                return host
        raise LbdnsError(f"there is no web host {name!r} in the farm; there are {', '.join(self.hosts)}")

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the web hosts."""
        return tuple(host.name for host in self.farm.hosts)

    def clients(self) -> list[Place]:
        return [place for place in self.places.values() if place.machine.kind == "client"]

    # What runs

    def start_web(self, name: str) -> None:
        self._web[name] = apache.apache(
            self.programs, self.places[name], self.host(name), self.folder / "content", self.folder / name
        )

    def stop_web(self, name: str, kill: bool = False) -> None:
        """End a host's Apache: told to, or with all its workers at once."""
        self._web.pop(name).stop(signal.SIGKILL if kill else signal.SIGTERM)

    def start_agent(self, name: str) -> None:
        place, group = self.places[name], self.groups.get(f"{name}-agent", self.groups[name])
        command = agent.agent_command(self._site, place, self.machines[HUB], self.farm.interval)
        self._agents[name] = self.programs.start(f"{name}-agent", place.command(*command, group=group))

    def stop_agent(self, name: str, kill: bool = False) -> None:
        """End a host's agent: told to, and it says goodbye, or without a word."""
        self._agents.pop(name).stop(signal.SIGKILL if kill else signal.SIGTERM)

    def run_in(self, machine: str, name: str, *command: str, inside_group: bool = True) -> Running:
        """Start something on a machine, under its limits or beside them. Whoever starts it stops it."""
        place = self.places[machine]
        group = None if inside_group else self.groups.get(f"{machine}-agent")
        return self.programs.start(name, place.command(*command, group=group))

    @contextmanager
    def proxy(self, name: str, method: str = proxies.ROUND_ROBIN) -> Iterator[str]:
        """A balancer in front of all web hosts; its address. Ends with the context."""
        backends = [self.machines[host] for host in self.hosts]
        running = proxies.start(self.programs, name, method, self.places[name], backends, self.folder / name)
        try:
            yield self.machines[name].address
        finally:
            running.stop()

    @contextmanager
    def resolve_by(self, *names: str) -> Iterator[None]:
        """Clients ask these machines, in turn, instead of lbdns itself; ``resolvers`` are all of them."""
        servers = [name for name, machine in self.machines.items() if machine.kind == "resolver"]
        self._ask(*(servers if names == ("resolvers",) else names))
        try:
            yield
        finally:
            self._ask(DNS)

    def fresh(self) -> None:
        """Start lbdns and the agents anew: nothing is left of what they have learned."""
        for name in list(self._agents):
            self.stop_agent(name)
        if self._lbdns:
            self._lbdns.stop()
        shutil.rmtree(self._site.state, ignore_errors=True)
        self._start_choosing()
        self.settle()

    # What is known of it

    def status(self) -> dict[str, Any]:
        """What lbdns says of itself and its members: the document of /api/v1/status."""
        return front.status(self.places[DNS])

    def members(self) -> dict[str, Mapping[str, Any]]:
        """The members of the pool in that document, by name."""
        return {member["name"]: member for member in self.status()["pools"][0]["members"]}

    def settle(self, seconds: float = SETTLED_S) -> None:
        """Wait until every web host that has an agent is usable and has nothing to do."""
        end = time.monotonic() + seconds
        while busy := self._busy():
            self.programs.check()
            if time.monotonic() > end:
                raise LbdnsError(f"after {seconds:g} s the lab is not at rest: {'; '.join(busy)}")
            time.sleep(LOOK_S)

    def _busy(self) -> list[str]:
        found = []
        for name, member in self.members().items():
            if name not in self._agents:
                continue
            metrics = member["metrics"]
            if member["state"] != "usable":
                found.append(f"{name} is {member['state']}")
            elif name in self._web and "busy_workers" not in metrics:
                found.append(f"{name}'s web server can't be asked")
            elif metrics.get("cpu_idle", 100.0) < IDLE_PERCENT or metrics.get("busy_workers", 0.0) > 1:
                found.append(
                    f"{name} is busy: {metrics.get('cpu_idle', 0):.0f} % idle, "
                    f"{metrics.get('busy_workers', 0):.0f} workers busy"
                )
        return found
