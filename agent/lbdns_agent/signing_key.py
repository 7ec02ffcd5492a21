"""Reads the key that this host signs its reports with from the agent's key file."""

from __future__ import annotations

import logging
from pathlib import Path

from lbdns_shared.errors import KeyFileError
from lbdns_shared.keys import read_key_file
from lbdns_shared.report import AgentKey

log = logging.getLogger("lbdns.agent")


def load_signing_key(path: Path | None, name: str) -> AgentKey | None:
    """Return the key to sign with, or None without a key file.

    Logs a warning if other users can read the file. Raises KeyFileError if the file has no key for host ``name``.
    """
    if path is None:
        return None
    keys, warnings = read_key_file(path)
    key = keys.key_to_send(name)
    if key is None:
        hosts = ", ".join(sorted({agent.host for agent in keys.agents}))
        raise KeyFileError(
            f"{path}: key file: has no key for {name!r}, only for {hosts}; set the host name with --name, "
            f"or add the output of 'lbdns keygen --agent {name} --master FILE'"
        )
    for warning in warnings:
        log.warning("%s", warning)
    return key
