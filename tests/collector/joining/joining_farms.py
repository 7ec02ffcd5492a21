"""Farms that hosts may join, and reports of such hosts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lbdns.model.farm import Farm
from lbdns.model.farm_reader import load_farm
from lbdns_shared.keys import MasterKey
from lbdns_shared.report import Kind, Report, encode
from tests.collector.collector_fixtures import IDLE, KEY, WALL, write_key
from tests.config.config_files import ZONE

JOIN = 'join = { names = "web-*", networks = ["10.0.0.0/8", "2001:db8::/32"], max = 3, leave_after = "10s" }'
RECORDS = (
    "$TTL 60", "@ SOA ns hostmaster 1 3600 600 86400 60", "@ NS ns", "ns A 127.0.0.1", "gandalf A 10.0.0.1",
    "web-zone A 10.0.0.2", "web-sub NS ns", "web-moved DNAME hobbit.",
)  # fmt: skip


def joinable(
    folder: Path, *pools: str, members: Sequence[str] = ("gandalf",), join: str = JOIN, records: Sequence[str] = RECORDS
) -> Farm:
    """Return a farm whose pool web hosts may join; ``pools`` are further tables."""
    (folder / "hobbit.zone").write_text("\n".join(records) + "\n")
    write_key(folder, KEY)
    own = f'[[pool]]\nname = "web"\nzone = "hobbit"\nmembers = {list(members)}\n{join}\n'
    path = folder / "lbdns.toml"
    rest = '[collector]\nlisten = ["127.0.0.1:0"]\nkey_file = "report.key"\n[web]\nlisten = "off"\n'
    path.write_text(f'[server]\nstate_dir = "state"\n{ZONE}{own}{"".join(pools)}{rest}')
    return load_farm(path)


def report_of(
    host: str = "web-1",
    *,
    pool: str = "",
    addresses: Sequence[str] = (),
    seq: int = 1,
    boot: int = 7,
    at: float = WALL,
    kind: Kind = "data",
) -> Report:
    return Report(host, boot, seq, at, 1.0, IDLE, kind, "", pool, tuple(addresses))


def signed(report: Report, key: MasterKey | None = KEY, host: str = "") -> bytes:
    """Return the datagram of a report, signed with the key of ``host`` (default: the report's host)."""
    return encode(report, key.agent_key(host or report.host) if key else None)
