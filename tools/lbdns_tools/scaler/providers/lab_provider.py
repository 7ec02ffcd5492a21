"""The provider ``lab``: web hosts with Apache in the network of a running lab."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lbdns.config import value_readers as read
from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import parse_network
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools.lab.farm.lab_farm import HTTP_PORT, NETWORK4
from lbdns_tools.lab.machines.network_namespaces import namespace_of
from lbdns_tools.lab.machines.placed_machine import NAMESPACES
from lbdns_tools.scaler.providers.agent_settings import AgentSettings
from lbdns_tools.scaler.providers.cloud_calls import need_package
from lbdns_tools.scaler.providers.machine_folder import LocalMachine
from lbdns_tools.scaler.providers.process_provider import DEFAULT_QUOTA, MAX_QUOTA, ProcessesConfig, ProcessProvider
from lbdns_tools.scaler.providers.provider import ProviderError

_ID: Final = re.compile(r"[0-9a-f]{6}\Z")
WORKERS: Final = 50  # Apache processes; the lab's default
#: Apart from the addresses of the lab's own machines, which begin at 198.18.0.1
DEFAULT_NETWORK: Final = ipaddress.IPv4Network("198.19.0.0/24")


def _network(text: str) -> ipaddress.IPv4Network:
    network = parse_network(text)
    if not isinstance(network, ipaddress.IPv4Network) or not network.subnet_of(NETWORK4):
        raise ValueError(f"{text!r} must be part of the lab's network {NETWORK4}, such as {DEFAULT_NETWORK}")
    return network


def _read_network(table: TomlTable, key: str, default: ipaddress.IPv4Network) -> ipaddress.IPv4Network:
    return table.parsed(key, str(default), _network, default)


def _lab(table: TomlTable, key: str, _: object) -> str:
    text = table.required(key)
    if text and not _ID.match(text):
        table.wrong(key, f"{text!r} is not the ID of a lab, which has six hexadecimal digits")
    return text


@dataclass(frozen=True, slots=True)
class LabConfig:
    """The settings of the provider ``lab``."""

    lab: str = read.key(_lab)  # ID of a running lab
    folder: Path = read.path("servers")  # contains a folder for each machine
    network: ipaddress.IPv4Network = read.key(_read_network, DEFAULT_NETWORK)
    cpu: float = read.number(0.1, 0.01, 64.0)  # cores of each web host
    memory: int = read.integer(0, 0, 2**40)  # bytes; 0: no limit
    workers: int = read.integer(WORKERS, 1, 1000)  # Apache processes
    quota: int = read.integer(DEFAULT_QUOTA, 0, MAX_QUOTA)  # machines
    boot_delay: float = read.duration(0.0)  # s from create or start until the processes are started
    fail_boot: tuple[str, ...] = read.each((), str)  # patterns for names of machines whose boots fail


class LabProvider(ProcessProvider):
    """A provider of web hosts with the same files, locks and supervisors as the machines of ``processes``."""

    def __init__(self, config: LabConfig, agent: AgentSettings, farm: str) -> None:
        """Raises ConfigError if this process does not run as root, or if pyroute2 is not installed."""
        need_package("pyroute2", "pyroute2", "lab")
        if os.geteuid() != 0:
            raise ConfigError("[provider] kind: 'lab' creates network namespaces; run lbdns-scaler as root")
        self._lab = config
        common = ProcessesConfig(
            config.folder, config.network, HTTP_PORT, config.workers, config.quota, config.boot_delay, config.fail_boot
        )
        super().__init__(common, agent, farm)

    async def create(self, name: str, user_data: str) -> None:
        """Create a web host. Raises ProviderError if the lab is not running."""
        if not (NAMESPACES / namespace_of(self._lab.lab, "hub")).exists():
            raise ProviderError(f"cannot create {name}: there is no lab {self._lab.lab}")
        await super().create(name, user_data)

    def _placed(self, machine: LocalMachine) -> LocalMachine:
        return replace(machine, lab=self._lab.lab, cpu=self._lab.cpu, memory=self._lab.memory)

    def _clean_up(self, machine: LocalMachine) -> None:
        from lbdns_tools.scaler.providers.lab_host import remove_lab_host

        if (NAMESPACES / namespace_of(machine.lab, machine.name)).exists():
            try:
                remove_lab_host(machine)
            except LbdnsError as error:
                raise ProviderError(f"cannot delete {machine.name}: {error}") from None
