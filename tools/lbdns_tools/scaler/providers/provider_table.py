"""The table of providers, and the section ``[provider]`` of scaler.toml, whose key ``kind`` selects one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lbdns.config import value_readers as read
from lbdns.config.toml_reader import TomlTable
from lbdns_tools.scaler.providers.agent_settings import AgentSettings, check_agent
from lbdns_tools.scaler.providers.command_provider import CommandConfig, CommandProvider, check_commands
from lbdns_tools.scaler.providers.ec2_provider import Ec2Config, Ec2Provider, check_ec2
from lbdns_tools.scaler.providers.lab_provider import LabConfig, LabProvider
from lbdns_tools.scaler.providers.openstack_provider import OpenStackConfig, OpenStackProvider, check_openstack
from lbdns_tools.scaler.providers.process_provider import ProcessesConfig, ProcessProvider
from lbdns_tools.scaler.providers.provider import Provider
from lbdns_tools.scaler.providers.user_data import UserDataTemplate, read_user_data


@dataclass(frozen=True, slots=True)
class ProviderKind:
    """A kind of provider. ``make`` receives the provider's settings, the agents' settings and the farm's name."""

    summary: str
    settings: Callable[..., Any]
    make: Callable[[Any, AgentSettings, str], Provider]
    check: Callable[[Any, TomlTable], None] = lambda settings, table: None


PROVIDERS: Final[Mapping[str, ProviderKind]] = {
    "processes": ProviderKind("web servers and agents on loopback addresses", ProcessesConfig, ProcessProvider),
    "command": ProviderKind(
        "the user's own commands", CommandConfig, lambda config, _, farm: CommandProvider(config, farm), check_commands
    ),
    "openstack": ProviderKind(
        "servers in an OpenStack cloud",
        OpenStackConfig,
        lambda config, _, farm: OpenStackProvider(config, farm),
        check_openstack,
    ),
    "ec2": ProviderKind(
        "instances of Amazon EC2, or of a cloud with the same API",
        Ec2Config,
        lambda config, _, farm: Ec2Provider(config, farm),
        check_ec2,
    ),
    "lab": ProviderKind("web hosts with Apache in the network of a running lab", LabConfig, LabProvider),
}

BOOTLESS: Final = ("processes", "lab")  # kinds whose servers run no user data
DEFAULT_KIND: Final = "processes"  # of a section with errors, whose provider is never made


@dataclass(frozen=True, slots=True)
class ProviderSection:
    """The section ``[provider]``. ``settings`` is of the class that ``PROVIDERS`` lists for ``kind``."""

    kind: str
    settings: Any
    agent: AgentSettings
    farm: str
    user_data: Path | None = None  # a template; None: the one that lbdns contains

    def make_provider(self) -> Provider:
        """Return the provider. Raises ConfigError if it requires a package that is not installed."""
        return PROVIDERS[self.kind].make(self.settings, self.agent, self.farm)

    def make_user_data(self) -> UserDataTemplate:
        """Return the template of the servers' user data. Raises ConfigError if it cannot be used."""
        return read_user_data(self.user_data, self.agent, self.farm)


def read_provider(root: TomlTable, farm: str) -> ProviderSection:
    """Return the section ``[provider]`` of a farm, and record any errors in it."""
    table = root.section("provider")
    name = table.string("kind")
    kind = PROVIDERS.get(name)
    if kind is None:
        if name:
            table.one_of("kind", "", PROVIDERS)
        elif table.values.get("kind", "") == "":
            table.wrong("kind", f"is missing; known: {', '.join(PROVIDERS)}")
        return ProviderSection(DEFAULT_KIND, PROVIDERS[DEFAULT_KIND].settings(), AgentSettings(), farm)
    settings, agent = read.read_fields(kind.settings, table), read.read_fields(AgentSettings, table)
    kind.check(settings, table)
    text = table.string("user_data")
    user_data = table.folder / text if text else None
    check_agent(agent, table, needs_key=user_data is None)
    if user_data and name in BOOTLESS:
        table.wrong("user_data", f'has no effect with kind = "{name}", whose servers run no boot script')
    table.end()
    return ProviderSection(name, settings, agent, farm, user_data)
