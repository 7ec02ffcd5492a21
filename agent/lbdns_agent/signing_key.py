"""Finds the key with which a host signs its reports, and the name of the host, in a key file."""

from __future__ import annotations

import logging
from pathlib import Path

from lbdns_shared.errors import KeyFileError
from lbdns_shared.keys import read_key_file
from lbdns_shared.report import AgentKey

log = logging.getLogger("lbdns.agent")


def load_signing_key(path: Path | None, name: str) -> AgentKey | None:
    """Return the key with which host ``name`` signs its reports, or None if ``path`` is None.

    Raises KeyFileError if the file contains no key for this host. Logs a warning if other users can read the key file.
    """
    if path is None:
        return None
    keys, warnings = read_key_file(path)
    key = keys.key_to_send(name)
    if key is None:
        hosts = ", ".join(sorted({agent.host for agent in keys.agents}))
        raise KeyFileError(
            f"{path}: the key file contains no key for {name!r}, only for {hosts}; set the host's name with --name, "
            f"or add the output of 'lbdns keygen --agent {name} --master FILE'"
        )
    for warning in warnings:
        log.warning("%s", warning)
    return key


def only_host(path: Path | None) -> str | None:
    """Return the host whose keys the key file contains, or None if the file does not name exactly one host.

    For an invalid file, None is returned; ``load_signing_key`` reports the file's errors.
    """
    if path is None:
        return None
    try:
        keys, _ = read_key_file(path)
    except KeyFileError:
        return None
    hosts = {key.host for key in keys.agents}
    return hosts.pop() if len(hosts) == 1 and not keys.masters else None
