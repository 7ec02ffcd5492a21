"""``[[zone]]``: the zones that are served and the master files they are read from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lbdns.config.reading import domain_name
from lbdns.toml_table import Place, Table


@dataclass(frozen=True, slots=True)
class ZoneConfig:
    name: str  # lower case, without the final dot; the root is ""
    file: Path


def read_zones(root: Table, base: Path) -> tuple[ZoneConfig, ...]:
    zones: list[ZoneConfig] = []
    for table in root.tables("zone"):
        name = domain_name(table, "name", table.required("name"))
        if name in (zone.name for zone in zones):
            table.wrong("name", f"{name!r} is there already: a zone is served from one file")
        zones.append(ZoneConfig(name, base / table.required("file")))
        table.end()
    if not zones and not root.findings.found:
        root.findings.add(Place(), "there is no [[zone]]; a zone needs a name and a file")
    return tuple(zones)
