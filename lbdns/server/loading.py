"""A configuration with everything it names, read and checked, for ``lbdns serve``."""

from __future__ import annotations

import gc
import logging
from dataclasses import dataclass, replace
from pathlib import Path

from lbdns.answering.table import Table
from lbdns.config import Config, load_config
from lbdns.endpoint import Endpoint
from lbdns.farm import Farm, load_farm
from lbdns.keys import MasterKey
from lbdns.server import native
from lbdns.server.forwarding.forward import check_upstreams
from lbdns.server.process import privileges
from lbdns.server.secondaries.serials import SerialFile, Serials, moved
from lbdns.server.secrets import read_secrets
from lbdns_collector.collector import load_keys

log = logging.getLogger("lbdns.server")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says; of the configuration it overrules what isn't empty."""

    listen: tuple[Endpoint, ...] = ()
    workers: int | None = None
    take_over: bool = False  # of the server that runs

    def applied(self, config: Config) -> Config:
        server = config.server
        overruled = replace(server, listen=self.listen or server.listen, workers=self.workers or server.workers)
        return replace(config, server=overruled)


NO_OPTIONS = Options()


@dataclass(frozen=True, slots=True)
class Loaded:
    """Everything that is needed to serve."""

    farm: Farm
    keys: tuple[MasterKey, ...]
    table: Table
    secrets: tuple[bytes, ...]  # of cookies, empty if the configuration leaves them to us
    serials: Serials  # that the zones of the farm have


def load_settings(path: Path, options: Options = NO_OPTIONS) -> Config:
    """The configuration alone: what has to be known before there is an event loop. Raises ConfigError."""
    config = options.applied(load_config(path))
    privileges.check_user(config.server.user)
    return config


def load(path: Path, options: Options = NO_OPTIONS, serials: Serials | None = None) -> Loaded:
    """Read a configuration with its zones and keys; ``serials`` were served until now, if not those of the file that
    keeps them over restarts. Raises ConfigError."""
    farm = load_farm(path)
    farm = replace(farm, config=options.applied(farm.config))
    privileges.check_user(farm.config.server.user)
    check_upstreams(farm.config)
    farm, serials = moved(farm, SerialFile().read(farm) if serials is None else serials)
    return Loaded(farm, load_keys(farm.config), new_table(farm), _secrets(farm.config), serials)


def new_table(farm: Farm) -> Table:
    """The table of a farm, on the plane that its configuration asks for. Raises LbdnsError if that is not there."""
    table = Table(farm, native.choose(farm.config.server.plane))
    # The garbage collector need not look at it again and again: with a hundred thousand names that takes 0.1 s,
    # in which nobody is answered. What is replaced later has no cycles and goes without the collector
    gc.freeze()
    return table


def _secrets(config: Config) -> tuple[bytes, ...]:
    if config.cookies.secret_file is None:
        return ()
    secrets, warnings = read_secrets(config.cookies.secret_file)
    for warning in warnings:
        log.warning(warning)
    return secrets
