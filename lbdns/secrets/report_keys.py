"""Reads the master keys that verify reports, from the file named by ``[collector] key_file``."""

from __future__ import annotations

import logging

from lbdns.config import Config
from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import MasterKey, read_key_file

log = logging.getLogger("lbdns.collector")


def load_report_keys(config: Config) -> tuple[MasterKey, ...]:
    """Return the master keys in ``[collector] key_file``; none without such a file. Logs warnings. Raises
    ConfigError."""
    path = config.collector.key_file
    if path is None:
        return ()
    keys, warnings = read_key_file(path)
    if not keys.masters:
        raise ConfigError(
            f"{path}: key file: holds no master key, only keys of agents. 'lbdns keygen' prints a master line"
        )
    for warning in warnings:
        log.warning(warning)
    return keys.masters
