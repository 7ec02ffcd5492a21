"""Reads a configuration and all files that it refers to, and reports the errors in all files at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lbdns.config import read_config
from lbdns.model.farm import Farm
from lbdns.model.farm_reader import read_farm
from lbdns.secrets.bus_access import BusAccess, read_bus_access
from lbdns.secrets.http_credentials import read_credentials, read_tokens
from lbdns.secrets.key_files import read_cookie_secrets, read_report_keys
from lbdns.secrets.tls_certificate import server_context
from lbdns.text.finding_order import in_order
from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import MasterKey

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConfigurationFiles:
    """The contents of a configuration and of the zone, key and secret files that it refers to.

    ``farm.warnings`` are about the configuration and the zone files. All other warnings are about files that other
    users can read.
    """

    farm: Farm
    report_keys: tuple[MasterKey, ...]  # empty if there is no key file
    cookie_secrets: tuple[bytes, ...]  # empty if there is no file of secrets
    bus: BusAccess | None  # None if the collector receives no reports from a bus
    warnings: tuple[str, ...]  # about the files with report keys, cookie secrets and the password for the bus
    http_warnings: tuple[str, ...]  # about the files that ``[web]`` names, which HTTP servers and clients read again


def read_files(path: Path, serves_dns: bool = True) -> ConfigurationFiles:
    """Read a configuration, and its zone files, key files and secret files.

    If ``serves_dns`` is false, the function ignores files that only a DNS server reads. Raises a ConfigError that lists
    the errors in all files. The errors in the configuration come first; within each file, the errors are in line order.
    """
    config, findings = read_config(path)
    warnings: list[str] = []
    http_warnings: list[str] = []

    def attempt(into: list[str], read: Callable[..., tuple[T, Iterable[str]]], *arguments: Any) -> T | None:
        try:
            found, notes = read(*arguments)
        except ConfigError as error:
            findings.extend(error.findings)
            return None
        into.extend(notes)
        return found

    faulty = {header for header, _ in config.source.faulty} if config.source else set()
    collector, secrets = config.collector, config.cookies.secret_file
    farm = attempt(warnings, lambda: (read_farm(config), ()))
    keys = attempt(warnings, read_report_keys, collector.key_file) if collector.key_file else ()
    cookie_secrets = attempt(warnings, read_cookie_secrets, secrets) if secrets and serves_dns else ()
    bus = attempt(warnings, read_bus_access, config.bus) if config.bus.url and "bus" not in faulty else None
    if "web" not in faulty:
        attempt(http_warnings, read_credentials, config.web)
        attempt(http_warnings, server_context, config.web)
    if collector.connect_token_file and serves_dns:
        attempt(http_warnings, read_tokens, collector.connect_token_file, "[collector] connect_token_file")
    if findings or farm is None:
        raise ConfigError(*in_order(findings, str(path)))
    return ConfigurationFiles(farm, keys or (), cookie_secrets or (), bus, tuple(warnings), tuple(http_warnings))
