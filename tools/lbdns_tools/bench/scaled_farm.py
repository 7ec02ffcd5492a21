"""Builds the farm that the benchmark ``scaling`` measures: on the loopback interface, or in a lab with Apache."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lbdns.client.http_client import HttpLocation
from lbdns.demo.child_processes import ChildProcesses
from lbdns_shared.endpoint import DNS_PORT, HTTP_PORT, REPORT_PORT, Endpoint
from lbdns_tools.bench.established_connections import established_connections
from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.free_ports import free_ports
from lbdns_tools.installed_programs import path_of
from lbdns_tools.lab.farm import lab_farm
from lbdns_tools.lab.farm.lab_farm import DNS, LabFarm
from lbdns_tools.lab.machines.control_groups import TOP, make_group
from lbdns_tools.lab.machines.network_namespaces import inside, namespace_of
from lbdns_tools.lab.machines.placed_machine import NAMESPACES
from lbdns_tools.lab.running_lab import Lab
from lbdns_tools.scaler.demo import demo_files
from lbdns_tools.scaler.demo.demo_files import LOOPBACK, FarmPlace, ScalerDemoPlan
from lbdns_tools.scaler.demo.run_demo import remove_servers

LONG_SECONDS: Final = 4  # of a request that takes long; longer than [times] quiet
CPU: Final = 0.1  # cores of each web host of the lab
WORKERS: Final = 20  # Apache processes of each web host of the lab
_CLIENT: Final = "127.0.0.2"  # apart from the agents, which connect from 127.0.0.1
_QUIET: Final = "--log-level", "error"
_PHASES: Final = """\
[[phase]]
name = "the load of 2014"
url = "http://best.hobbit:{port}{short}"
trace = "load.csv"
seconds = {seconds:g}

[[phase]]
name = "requests that take {long} s"
url = "http://best.hobbit:{port}{slow}?s={long}"
rate = 3
seconds = {seconds:g}
"""


def _do(work: Callable[[], Any]) -> Any:
    return work()


@dataclass(frozen=True, slots=True)
class ScaledFarm:
    """A farm with a running DNS server and a running scaler."""

    plan: ScalerDemoPlan
    folder: Path
    programs: ChildProcesses
    dns: Endpoint
    client: str  # the address from which the load comes
    load: tuple[str, ...]  # the command that runs the load, and writes its results to load.json
    #: Calls a function in the network in which the scaler and the DNS server run, and returns its result
    near: Callable[[Callable[[], Any]], Any] = field(default=_do)
    #: Calls a function in the network of one web server. Raises OSError if the network no longer exists
    at_server: Callable[[str, Callable[[], Any]], Any] = field(default=lambda _, work: work())

    @property
    def scaler(self) -> HttpLocation:
        """The scaler's HTTP interface."""
        return HttpLocation(f"http://{LOOPBACK}:{self.plan.scaler_port}")

    def connections(self, name: str, address: str) -> int | None:
        """Return the number of connections from clients to a server, or None if the server no longer exists."""
        try:
            count: int = self.at_server(name, lambda: established_connections(address, self.plan.web_port, self.client))
        except OSError:
            return None
        return count


@contextlib.contextmanager
def loopback_farm(highest: float, seconds: float, folder: Path) -> Iterator[ScaledFarm]:
    """Run a farm whose servers are processes on this host. Raises LbdnsError."""
    dns, reports, http, scaler, web = free_ports(5)
    plan = ScalerDemoPlan(dns, reports, http, scaler, web, highest=highest, seconds=seconds)
    demo_files.write(plan, folder)
    python = sys.executable, "-m"
    with contextlib.ExitStack() as stack:
        stack.callback(remove_servers, folder / "scaler.toml")  # after the scaler has ended
        programs = stack.enter_context(ChildProcesses())
        server = [*python, "lbdns", "serve", "-c", str(folder / "lbdns.toml"), *_QUIET]
        programs.start("the DNS server", server)
        programs.start("the scaler", [*python, "lbdns_tools.scaler", "run", "-c", str(folder / "scaler.toml"), *_QUIET])
        load = _load_command(plan, folder, "/work?ms=5", "/sleep", _CLIENT)
        where = "--resolver", f"{LOOPBACK}:{dns}"
        yield ScaledFarm(plan, folder, programs, Endpoint(LOOPBACK, dns), _CLIENT, (*load, *where))


@contextlib.contextmanager
def lab_scaled_farm(highest: float, seconds: float, folder: Path) -> Iterator[ScaledFarm]:
    """Run a farm whose servers are network namespaces with Apache. Raises LbdnsError, for example without root."""
    if os.geteuid() != 0:
        raise BenchmarkError("--provider lab: creates network namespaces; run the benchmark as root")
    path_of("apache2")
    (scaler,) = free_ports(1)
    plan = ScalerDemoPlan(scaler_port=scaler, web_port=lab_farm.HTTP_PORT, highest=highest, seconds=seconds)
    demo_files.write_load(plan, folder)
    with contextlib.ExitStack() as stack:
        lab = stack.enter_context(Lab(LabFarm((), joining="web-*")))
        (folder / "scaler.toml").write_text(demo_files.scaler_config(plan, _lab_place(lab)))
        stack.callback(remove_servers, folder / "scaler.toml")
        programs = stack.enter_context(ChildProcesses())
        run = sys.executable, "-m", "lbdns_tools.scaler", "run", "-c", str(folder / "scaler.toml"), *_QUIET
        programs.start("the scaler", command_in_lab(lab, DNS, *run))
        (client,) = lab.clients()
        load = _load_command(plan, folder, "/cgi-bin/file?size=5000", "/cgi-bin/sleep", client.machine.address)
        yield ScaledFarm(
            plan, folder, programs, Endpoint(lab.machines[DNS].address, DNS_PORT), client.machine.address,
            client.command(*load, "--resolve", "connection"),
            near=lambda work: inside(lab.places[DNS].namespace, work),
            at_server=lambda name, work: inside(namespace_of(lab.id, name), work),
        )  # fmt: skip


def command_in_lab(lab: Lab, machine: str, *words: str) -> tuple[str, ...]:
    """Return a command that runs in a machine's network, but sees the mounts of this process.

    The scaler needs this, because each network namespace that it creates is a mount, which other processes must see.
    The scaler also starts a supervisor for each server. The command has its own control group, so that these
    supervisors do not delay the machine's programs.
    """
    network = f"--net={NAMESPACES / lab.places[machine].namespace}"
    return make_group(f"{TOP}/{lab.id}/scaler").command("nsenter", network, "--", *words)


def _lab_place(lab: Lab) -> FarmPlace:
    dns, files = lab.machines[DNS].address, lab.folder / DNS
    return FarmPlace(
        url=f"http://{dns}:{HTTP_PORT}",
        control=str(files / "control.sock"),
        benchmark="/1k.html",
        provider=f'kind = "lab"\nlab = "{lab.id}"\ncpu = {CPU:g}\nworkers = {WORKERS}',
        collector=f"{dns}:{REPORT_PORT}",
        key_file=str(files / "report.key"),
    )


def _load_command(plan: ScalerDemoPlan, folder: Path, short: str, slow: str, client: str) -> tuple[str, ...]:
    """Write the load's phases. Return the command that runs them from the address ``client``."""
    phases = folder / "phases.toml"
    text = _PHASES.format(port=plan.web_port, short=short, slow=slow, long=LONG_SECONDS, seconds=plan.load_seconds)
    phases.write_text(text)
    return (
        sys.executable, "-m", "lbdns_tools.load", "--phases", str(phases), "--source", client, "--timeout", "30",
        "--json", str(folder / "load.json"), "--quiet",
    )  # fmt: skip
