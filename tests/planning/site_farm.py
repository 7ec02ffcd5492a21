"""A farm with one pool in two sites, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lbdns.model.farm import Farm
from lbdns.model.farm_reader import load_farm

CONFIGURATION: Final = """
[[zone]]
name = "hobbit"
file = "hobbit.zone"
[sites]
order = ["ber", "par"]
networks = "networks"
[[pool]]
name = "web"
zone = "hobbit"
members = ["b1", "b2", "p1", "p2"]
sites = { ber = ["b1", "b2"], par = ["p1", "p2"] }
names = { rr = "round_robin" }
answer = "address"
coherence = 0
"""
ZONE: Final = """@ 60 SOA ns hostmaster 1 1h 15m 1w 5m
@ NS ns
ns A 127.0.0.1
b1 A 127.1.0.1
b2 A 127.1.0.2
p1 A 127.2.0.1
p2 A 127.2.0.2
"""
NETWORKS: Final = "10.2.0.0/16 par ber\n"


def site_farm(folder: Path) -> Farm:
    """Write the files of the farm to ``folder``, and return the farm."""
    for name, text in (("lbdns.toml", CONFIGURATION), ("hobbit.zone", ZONE), ("networks", NETWORKS)):
        (folder / name).write_text(text)
    return load_farm(folder / "lbdns.toml")
