"""The keys of ``[provider]`` that define how the agents on new servers join: collectors, pool, key and interval."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.config import value_readers as read
from lbdns.config.toml_reader import TomlTable
from lbdns_shared.endpoint import REPORT_PORT, Endpoint, parse_endpoint
from lbdns_shared.errors import KeyFileError
from lbdns_shared.keys import agent_line, read_key_file

LOCAL_COLLECTOR: Final = Endpoint("127.0.0.1", REPORT_PORT)
LONGEST_POOL: Final = 100  # characters: the agent's limit for --pool


def _collector(text: str) -> Endpoint:
    return parse_endpoint(text, REPORT_PORT)


def _pool(table: TomlTable, key: str, default: str) -> str:
    pool = table.string(key, default)
    if len(pool) > LONGEST_POOL or not (pool or "x").isprintable():
        table.wrong(key, f"must be the name of a pool with at most {LONGEST_POOL} characters, not {pool!r}")
        return default
    return pool


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How the agent of a new server joins the pool."""

    collectors: tuple[Endpoint, ...] = read.each((LOCAL_COLLECTOR,), _collector)
    pool: str = read.key(_pool, "")  # empty: the only pool that a host with this name may join
    key_file: Path | None = read.secret_path()  # the collector's master key
    interval: float = read.duration(1.0, 0.1)  # s between two reports

    def options(self) -> list[str]:
        """Return the options of the agent that do not depend on the server."""
        collectors = [word for endpoint in self.collectors for word in ("--collector", str(endpoint))]
        pool = ["--pool", self.pool] if self.pool else []
        return [*collectors, *pool, "--interval", f"{self.interval:g}"]

    def key_line(self, name: str) -> str:
        """Return the line for the agent's key file: a key that is valid only for the host ``name``.

        Raises KeyFileError if the master key is not set, cannot be read or is not a master key.
        """
        if self.key_file is None:
            raise KeyFileError("[provider] key_file: is missing; servers join only with signed reports")
        keys, _ = read_key_file(self.key_file)
        if not keys.masters:
            raise KeyFileError(f"{self.key_file}: the key file contains no master key; use the collector's key file")
        return agent_line(keys.masters[0].agent_key(name))


def check_agent(agent: AgentSettings, table: TomlTable, needs_key: bool) -> None:
    """Record errors about keys that are missing or empty."""
    if agent.key_file is None and needs_key:
        table.wrong("key_file", "is missing; name the collector's key file, from which each server's key is derived")
    if table.values.get("collectors") == []:
        table.wrong("collectors", 'is empty; list the collectors, such as "192.0.2.53:7777"')
