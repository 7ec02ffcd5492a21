"""Keeps the scaler's records of its servers in a file, so that a restarted scaler continues where it stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lbdns.process.atomic_file import replace_file
from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.life_cycle.server_record import ServerRecord, record_as_json, record_of_json

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class KeptServers:
    """The contents of the file: the server records, keyed by name, and the highest number used in any server's name so
    far."""

    records: Mapping[str, ServerRecord] = field(default_factory=dict)
    highest: int = 0


def read_servers(path: Path) -> KeptServers:
    """Return the servers in the file, or no servers if the file does not exist.

    Raises LbdnsError if the file cannot be read or is malformed, because the scaler must not guess.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']!r} is not supported")
        records = [record_of_json(values) for values in content["servers"]]
        return KeptServers({record.name: record for record in records}, int(content["highest"]))
    except FileNotFoundError:
        return KeptServers()
    except OSError as error:
        raise LbdnsError(f"{path}: cannot read the file: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        what = f"not a valid list of servers ({error}); delete the file to rebuild it from what the provider reports"
        raise LbdnsError(f"{path}: {what}") from None


def write_servers(path: Path, kept: KeptServers) -> None:
    """Replace the file. Raises LbdnsError if it cannot be written; a server must not be created without a record."""
    servers = [record_as_json(record) for record in kept.records.values()]
    content = json.dumps({"version": VERSION, "highest": kept.highest, "servers": servers}, indent=1)
    try:
        replace_file(path, content + "\n", 0o600, sync=True)
    except OSError as error:
        raise LbdnsError(f"{path}: cannot write the file: {error.strerror}") from None
