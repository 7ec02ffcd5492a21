"""Starts HAProxy, nginx and Pound in front of the lab's web hosts, for comparison with lbdns."""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_tools import installed_programs
from lbdns_tools.lab.farm.lab_farm import LabMachine
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.machines.server_probes import get
from lbdns_tools.lab.programs.balancer_config import CONFIGURATIONS
from lbdns_tools.lab.programs.balancer_setup import BalancerSetup, check_setup
from lbdns_tools.lab.programs.lab_programs import LabProgram, LabPrograms


@dataclass(frozen=True, slots=True)
class BalancerProgram:
    """The name of a balancer's configuration file, and the command-line arguments that start the balancer in the
    foreground with the configuration file ``{config}``."""

    file_name: str
    arguments: tuple[str, ...]


#: The balancer program for each name in PROXIES
ALL: Final[Mapping[str, BalancerProgram]] = {
    "haproxy": BalancerProgram("haproxy.cfg", ("-db", "-f", "{config}")),
    # Without -e, errors before the configuration is read would go to the package's log
    "nginx": BalancerProgram("nginx.conf", ("-p", "{folder}", "-e", "stderr", "-c", "{config}")),
    "pound": BalancerProgram("pound.cfg", ("-F", "-e", "-f", "{config}", "-p", "{folder}/pound.pid")),
}


def write_config(
    setup: BalancerSetup, hosts: Sequence[LabMachine], folder: Path, certificate: Path | None = None
) -> Path:
    """Write a balancer's configuration file into ``folder`` and return its path.

    ``certificate`` is the file with the certificate and its key, which is only needed with TLS. The balancer need not
    be installed. Raises ConfigError.
    """
    check_setup(setup)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    path = folder / ALL[setup.program].file_name
    path.write_text(CONFIGURATIONS[setup.program](setup, hosts, folder, certificate))
    return path


def start(
    programs: LabPrograms,
    setup: BalancerSetup,
    place: PlacedMachine,
    hosts: Sequence[LabMachine],
    folder: Path,
    certificate: Path | None = None,
) -> LabProgram:
    """Start a balancer with its files in ``folder``, and wait until it forwards requests. Raises LbdnsError."""
    config = write_config(setup, hosts, folder, certificate)
    arguments = [argument.format(config=config, folder=folder) for argument in ALL[setup.program].arguments]

    def forwards() -> bool:
        found = get(place, "/", tls=bool(setup.tls))
        return found is not None and found[0] == http.client.OK

    command = place.command(installed_programs.path_of(setup.program), *arguments)
    return programs.start(setup.program, command, ready=forwards)
