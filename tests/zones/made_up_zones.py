"""The beginning of a master file for tests, and the zone that a text describes."""

from __future__ import annotations

from pathlib import Path

from lbdns.zones import names
from lbdns.zones.master_file import RRset, Zone, parse_zone

NS, CNAME, PTR, MX, TXT = 2, 5, 12, 15, 16
HEAD = "$TTL 300\n@ SOA ns hostmaster 7 3600 900 604800 60\n@ NS ns\nns A 127.0.0.1\n"


def zone(body: str, name: str = "hobbit", path: Path = Path("hobbit.zone")) -> Zone:
    return parse_zone(name, HEAD + body, path)


def rrset(found: Zone, owner: str, rtype: int) -> RRset:
    return found.nodes[names.from_text(owner)][rtype]


def text_of(found: RRset) -> list[bytes]:
    """Return the strings in the TXT records."""
    return [rdata[1 : 1 + rdata[0]] for rdata in found.rdatas]
