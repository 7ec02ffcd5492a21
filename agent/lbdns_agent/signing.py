"""The key that this host's reports are signed with, from its key file."""

from __future__ import annotations

import logging
from pathlib import Path

from lbdns.errors import KeyFileError
from lbdns.keys import read_key_file
from lbdns.report import AgentKey

log = logging.getLogger("lbdns.agent")


def load_key(path: Path | None, name: str) -> AgentKey | None:
    """The key to send with; None without a key file. Raises KeyFileError, also when there is none for ``name``.

    A file that others can read is used, with a warning.
    """
    if path is None:
        return None
    keys, warnings = read_key_file(path)
    key = keys.key_to_send(name)
    if key is None:
        hosts = ", ".join(sorted({agent.host for agent in keys.agents}))
        raise KeyFileError(
            f"{path}: key file: has no key for {name!r}, only for {hosts}; start with --name, "
            f"or get a line by 'lbdns keygen --agent {name} --master FILE'"
        )
    for warning in warnings:
        log.warning("%s", warning)
    return key
