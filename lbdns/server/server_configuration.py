"""Reads the configuration of ``lbdns serve`` and all files named in it, and stores the configuration in force."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lbdns.answering import plane
from lbdns.answering.answer_table import AnswerTable
from lbdns.config import Config, read_config
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.configuration_files import read_files
from lbdns.model.farm import Farm
from lbdns.model.joined_members import JoinedMembers
from lbdns.process import privileges
from lbdns.process.apply_configuration import PreparedChange
from lbdns.process.state_format import check_state_format
from lbdns.server.forwarding.forwarder import check_upstreams
from lbdns.server.secondaries.zone_serials import SerialFile, ServedSerials, advance_serials
from lbdns_collector.joining.joined_file import include_joined, joined_path, read_joined
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError

log = logging.getLogger("lbdns.server")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options of ``lbdns serve``. Each option that is set overrides the corresponding key of the configuration file."""

    listen: tuple[Endpoint, ...] = ()
    workers: int | None = None
    take_over: bool = False  # from a running server

    def applied(self, config: Config) -> Config:
        server = config.server
        overruled = replace(server, listen=self.listen or server.listen, workers=self.workers or server.workers)
        return replace(config, server=overruled)


NO_SERVE_OPTIONS = ServeOptions()


@dataclass(frozen=True, slots=True)
class ServeConfiguration(CheckedConfiguration):
    """The checked configuration, and everything else that ``lbdns serve`` reads at startup."""

    table: AnswerTable
    secrets: tuple[bytes, ...]  # for DNS cookies; empty if the configuration names no file of secrets
    serials: ServedSerials  # of the zones in the farm


def read_settings(path: Path, options: ServeOptions = NO_SERVE_OPTIONS) -> Config:
    """Return the configuration without its zones and keys, for use before the event loop starts.

    Raises ConfigError. If the configuration contains errors, the ConfigError also lists the errors in all other files.
    """
    config, findings = read_config(path)
    if findings:
        read_files(path)  # raises ConfigError
    config = options.applied(config)
    privileges.check_user(config.server.user)
    return config


def read_configuration(
    path: Path,
    options: ServeOptions = NO_SERVE_OPTIONS,
    serials: ServedSerials | None = None,
    joined: JoinedMembers | None = None,
    lock_state: Callable[[Path, str], object] = lambda folder, user: None,
) -> ServeConfiguration:
    """Read a configuration, its zones and its keys. The function blocks on disk I/O. Raises ConfigError.

    ``serials`` contains the last served serials, and ``joined`` contains the currently joined members. If one of these
    arguments is None, its value is read from a file in the state directory. ``lock_state`` is called with this
    directory and the server's user before the first of its files is read; errors of this function are passed on.
    """
    files = read_files(path)
    configured = replace(files.farm, config=options.applied(files.farm.config))
    privileges.check_user(configured.config.server.user)
    check_upstreams(configured.config)
    server = configured.config.server
    lock_state(server.state_dir, server.user)
    check_state_format(server.state_dir)
    serials = SerialFile().read(configured) if serials is None else serials
    joined = read_joined(joined_path(configured.config)) if joined is None else joined
    farm, serials, joined = _with_joined(configured, joined, serials)
    table = new_table(farm)
    configuration = ServeConfiguration(
        farm, files.report_keys, table, files.cookie_secrets, serials, joined=joined, without_joined=configured,
        bus=files.bus,
    )  # fmt: skip
    for warning in files.warnings:
        log.warning(warning)
    return configuration


def with_members(before: ServeConfiguration, joined: JoinedMembers) -> ServeConfiguration:
    """Return a copy of a configuration in which ``joined`` replaces the joined members."""
    farm, serials, joined = _with_joined(before.configured, joined, before.serials)
    return replace(before, farm=farm, table=new_table(farm), serials=serials, joined=joined)


def _with_joined(
    configured: Farm, joined: JoinedMembers, serials: ServedSerials
) -> tuple[Farm, ServedSerials, JoinedMembers]:
    """Return the farm to serve, its serials, and the joined members in it."""
    farm, joined = include_joined(configured, joined)
    return *advance_serials(farm, serials), joined


def new_table(farm: Farm) -> AnswerTable:
    """Return a farm's answer table for the configured plane. Raises LbdnsError if that plane is not available."""
    table = AnswerTable(farm, plane.choose_plane(farm.config.server.plane))
    # Exempt the table from garbage collection: with a hundred thousand names each collection takes 0.1 s, during which
    # no query is answered. A table that is replaced later has no reference cycles and is freed without the collector
    gc.freeze()
    return table


def _source(config: Config) -> tuple[bool, bool]:
    return bool(config.collector.connect), config.collector.follows_bus


class CurrentConfiguration:
    """Holds the current configuration.

    This part prepares before all other parts, and rejects changes that need a restart.
    """

    def __init__(self, path: Path, value: ServeConfiguration) -> None:
        self._path = path
        self.value = value

    @property
    def farm(self) -> Farm:
        return self.value.farm

    async def prepare(self, new: ServeConfiguration) -> PreparedChange:
        """Return a change that applies ``new``. Raises ConfigError if this change needs a restart."""
        before, after = self.farm.config, new.farm.config
        if _source(after) != _source(before):
            what = "switching between receiving reports, following a collector and following the bus requires a restart"
            raise ConfigError(f"{self._path}: [collector] connect: {what}")
        for key in ("user", "workers", "plane", "xdp"):
            if getattr(after.server, key) != getattr(before.server, key):
                raise ConfigError(f"{self._path}: [server] {key}: a change requires a restart")

        def commit() -> None:
            was_read = new.configured is not self.value.configured  # False if only hosts have joined or left
            self.value = new
            for warning in new.farm.warnings if was_read else ():
                log.warning(warning)

        return PreparedChange("configuration", commit=commit)
