"""The configuration in force, as the one place that every part of the server reads it from."""

from __future__ import annotations

import logging
from pathlib import Path

from lbdns.model.farm import Farm
from lbdns.process.apply_configuration import PreparedChange
from lbdns.server.configuration_reader import ServeConfiguration
from lbdns_shared.errors import ConfigError

log = logging.getLogger("lbdns.server")


class CurrentConfiguration:
    """Holds the configuration in force. The first part that prepares: it refuses changes that need a restart."""

    def __init__(self, path: Path, value: ServeConfiguration) -> None:
        self._path = path
        self.value = value

    @property
    def farm(self) -> Farm:
        return self.value.farm

    async def prepare(self, new: ServeConfiguration) -> PreparedChange:
        """Return a change to ``new``. Raises ConfigError if it needs a restart."""
        before, after = self.farm.config, new.farm.config
        if bool(after.collector.connect) != bool(before.collector.connect):
            raise ConfigError(f"{self._path}: [collector] connect: following instead of receiving needs a restart")
        for key in ("user", "workers", "plane"):
            if getattr(after.server, key) != getattr(before.server, key):
                raise ConfigError(f"{self._path}: [server] {key}: changing it needs a restart")

        def commit() -> None:
            self.value = new
            for warning in new.farm.warnings:
                log.warning(warning)

        return PreparedChange("configuration", commit=commit)
