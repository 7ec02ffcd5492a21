"""Builds the machines of a lab, starts lbdns, agents, web servers and balancers, and cleans up."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Self

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import DNS, HUB, ZONE, LabFarm, LabMachine, WebHost, machines
from lbdns_tools.lab.machines import network_namespaces
from lbdns_tools.lab.machines.control_groups import TOP, ControlGroup, make_group
from lbdns_tools.lab.machines.emulated_links import EmulatedLinks, LinkCondition
from lbdns_tools.lab.machines.leftover_cleanup import new_id, record
from lbdns_tools.lab.machines.link_distances import LinkDistances
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.programs import balancer_programs, dns_servers, php_content, web_content, web_host_programs
from lbdns_tools.lab.programs.balancer_setup import BalancerSetup
from lbdns_tools.lab.programs.lab_programs import LabProgram, LabPrograms
from lbdns_tools.lab.programs.tls_certificate import write_certificate

SETTLED_S: Final = 90.0  # a host with 0.07 cores needs half a minute to work off the backlog of an aborted load
IDLE_PERCENT: Final = 80.0
POLL_S: Final = 0.2


class Lab:
    """A context manager that builds a farm on entry and removes it completely on exit. Needs root.

    ``groups`` maps machine names to the control groups that can be sampled. If agents run outside their hosts' limits,
    the agent on the host NAME runs in the separate group ``NAME-agent``. All methods raise LbdnsError on failure.
    """

    def __init__(self, farm: LabFarm) -> None:
        self.farm = farm
        self.id = new_id()
        self.machines: dict[str, LabMachine] = {machine.name: machine for machine in machines(farm)}
        self.places: dict[str, PlacedMachine] = {}
        self.groups: dict[str, ControlGroup] = {}
        self._stack = ExitStack()
        self._web: dict[str, LabProgram] = {}
        self._agents: dict[str, LabProgram] = {}
        self._lbdns: LabProgram | None = None
        self._certificate: Path | None = None  # with its key; only if hosts serve HTTPS
        self._site: dns_servers.DnsServerFiles
        self.programs: LabPrograms
        self.folder: Path

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._build(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _build(self, stack: ExitStack) -> None:
        traces = record(self.id)
        stack.callback(traces.remove)
        self.folder = traces.folder
        network_namespaces.build(self.id, tuple(self.machines.values()))
        make_group(f"{TOP}/{self.id}").favour()
        for name, machine in self.machines.items():
            group = make_group(f"{TOP}/{self.id}/{name}")
            self.places[name] = PlacedMachine(machine, network_namespaces.namespace_of(self.id, name), group)
            if name != HUB:
                self.groups[name] = group
        self._emulate_distances(stack)
        self._use_resolvers(DNS)  # before any program starts: a program keeps the resolv.conf it started with
        for host in self.farm.hosts:
            self.groups[host.name].limit_cpu(host.cpu, self.farm.cpu_period)
            if host.memory:
                self.groups[host.name].limit_memory(host.memory)
            if not self.farm.agents_inside:
                self.groups[f"{host.name}-agent"] = make_group(f"{TOP}/{self.id}/{host.name}-agent")
        logs = self.folder / "logs"
        logs.mkdir()
        self.programs = stack.enter_context(LabPrograms(logs))
        web_content.write_content(self.folder / web_content.FOLDER)
        self._certificate = write_certificate(self.folder, ZONE) if self.farm.tls else None
        self._site = dns_servers.write_site(self.farm, tuple(self.machines.values()), self.folder / DNS)
        if self.farm.php:
            self._start_memcached()
        for host in self.farm.hosts:
            self.start_web(host.name)
        self._start_lbdns()
        for name, machine in self.machines.items():
            if machine.kind == "resolver":
                dns_servers.start_resolver(
                    self.programs, self.places[name], self.machines[DNS], self.farm, self.folder / name
                )
        self.settle()

    def _start_memcached(self) -> None:
        """Write the PHP programs, and start their memcached on each web host."""
        php_content.write_php(self.folder / web_content.FOLDER)
        for name in self.farm.host_names:
            self.run_in(name, f"memcached-{name}", *php_content.memcached_command())

    def _emulate_distances(self, stack: ExitStack) -> None:
        """Delay the packets that clients send to web hosts, if the hosts are at sites."""
        if not self.farm.sites:
            return
        links = stack.enter_context(EmulatedLinks(self.id))
        hosts = [self.machines[name] for name in self.farm.host_names]
        for client in self.clients():
            site = client.machine.site
            near, far = LinkCondition(self.farm.near_s), LinkCondition(self.farm.far_s)
            links.set(client.machine, [host for host in hosts if host.site == site], near)
            links.set(client.machine, [host for host in hosts if host.site != site], far)

    def _start_lbdns(self) -> None:
        self._lbdns = dns_servers.serve(self.programs, self.places[DNS], self._site)
        for host in self.farm.hosts:
            self.start_agent(host.name)

    def _use_resolvers(self, *servers: str) -> None:
        """Assign the resolvers ``servers`` to the client hosts in turn. All other machines query lbdns directly."""
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
        raise LbdnsError(f"the farm has no web host {name!r}; the web hosts are {', '.join(self.farm.host_names)}")

    def clients(self) -> list[PlacedMachine]:
        return [place for place in self.places.values() if place.machine.kind == "client"]

    def start_web(self, name: str) -> None:
        self._web[name] = web_host_programs.apache(
            self.programs, self.places[name], self.host(name), self.folder / web_content.FOLDER, self.folder / name,
            keep_alive=self.farm.keep_alive, certificate=self._certificate, php=self.farm.php,
        )  # fmt: skip

    def stop_web(self, name: str, kill: bool = False) -> None:
        """Stop a host's Apache with SIGTERM or, with ``kill``, kill Apache and all its workers immediately."""
        self._web.pop(name).stop(signal.SIGKILL if kill else signal.SIGTERM)

    def start_agent(self, name: str) -> None:
        place, group = self.places[name], self.groups.get(f"{name}-agent", self.groups[name])
        command = web_host_programs.agent_command(self._site, place, self.machines[HUB], self.farm)
        self._agents[name] = self.programs.start(f"{name}-agent", place.command(*command, group=group))

    def stop_agent(self, name: str, kill: bool = False) -> None:
        """Stop a host's agent. With ``kill``, the agent receives SIGKILL instead of SIGTERM and cannot report its
        shutdown."""
        self._agents.pop(name).stop(signal.SIGKILL if kill else signal.SIGTERM)

    def run_in(self, machine: str, name: str, *command: str) -> LabProgram:
        """Start a program under a machine's CPU and memory limits. The caller must stop the program."""
        return self.programs.start(name, self.places[machine].command(*command))

    @contextmanager
    def proxy(self, setup: BalancerSetup) -> Iterator[str]:
        """Run a balancer in front of all web hosts for the duration of the context, and yield its address.

        TLS requires a farm that serves HTTPS.
        """
        name = setup.program
        backends = [self.machines[host] for host in self.farm.host_names]
        running = balancer_programs.start(
            self.programs, setup, self.places[name], backends, self.folder / name, self._certificate
        )
        try:
            yield self.machines[name].address
        finally:
            running.stop()

    @contextmanager
    def sysctls(self, kind: str, values: Mapping[str, str]) -> Iterator[None]:
        """Set sysctls of the network on all machines of a kind, such as "web", for the duration of the context.

        The machines' web servers are restarted, because the size of a queue for accept() is set when it is opened.
        """
        places = [place for place in self.places.values() if place.machine.kind == kind]
        before: list[tuple[PlacedMachine, Mapping[str, str]]] = []
        try:
            before.extend((place, network_namespaces.set_sysctls(place.namespace, values)) for place in places)
            self._restart_web(places)
            yield
        finally:
            for place, was in before:
                network_namespaces.set_sysctls(place.namespace, was)
            self._restart_web(places)

    def _restart_web(self, places: Sequence[PlacedMachine]) -> None:
        names = [place.machine.name for place in places if place.machine.name in self._web]
        for name in names:
            self.stop_web(name)
            self.start_web(name)
        if names:
            self.settle()

    @contextmanager
    def distances(self, distances: LinkDistances) -> Iterator[None]:
        """Delay and lose packets between clients, DNS server and web hosts for the duration of the context.

        The hosts must not have sites, whose distances always apply.
        """
        with EmulatedLinks(self.id) as links:
            distances.apply(links, self.machines)
            yield

    @contextmanager
    def resolve_by(self, *names: str) -> Iterator[None]:
        """Make clients query the named machines instead of lbdns. The name "resolvers" means all caching resolvers."""
        servers = [name for name, machine in self.machines.items() if machine.kind == "resolver"]
        self._use_resolvers(*(servers if names == ("resolvers",) else names))
        try:
            yield
        finally:
            self._use_resolvers(DNS)

    def fresh(self) -> None:
        """Restart lbdns and the agents without saved state. lbdns must then learn the hosts' capacities again."""
        for name in list(self._agents):
            self.stop_agent(name)
        if self._lbdns:
            self._lbdns.stop()
        shutil.rmtree(self._site.state, ignore_errors=True)
        self._start_lbdns()
        self.settle()

    def status(self) -> dict[str, Any]:
        """Return the status document that lbdns serves at /api/v1/status."""
        return dns_servers.status(self.places[DNS])

    def members(self) -> dict[str, Mapping[str, Any]]:
        """Return the members of the lab's pool from the status document, keyed by name."""
        return {member["name"]: member for member in self.status()["pools"][0]["members"]}

    def settle(self, seconds: float = SETTLED_S) -> None:
        """Wait up to ``seconds`` until every web host with an agent is usable and idle. Raises LbdnsError."""
        end = time.monotonic() + seconds
        while busy := self._busy():
            self.programs.check()
            if time.monotonic() > end:
                raise LbdnsError(f"the lab is still busy after {seconds:g} s: {'; '.join(busy)}")
            time.sleep(POLL_S)

    def _busy(self) -> list[str]:
        found = []
        for name, member in self.members().items():
            if name not in self._agents:
                continue
            metrics = member["metrics"]
            if member["state"] != "usable":
                found.append(f"{name} is {member['state']}")
            elif name in self._web and "busy_workers" not in metrics:
                found.append(f"the web server on {name} does not return its status")
            elif metrics.get("cpu_idle", 100.0) < IDLE_PERCENT or metrics.get("busy_workers", 0.0) > 1:
                found.append(
                    f"{name} is busy: CPU {metrics.get('cpu_idle', 0):.0f} % idle, "
                    f"{metrics.get('busy_workers', 0):.0f} workers busy"
                )
        return found
