"""Farms for tests, built from zone text and pool settings without any files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lbdns.config import DEFAULT_NAMES, AnswerForm, CollectorConfig, Config, PoolConfig, ServerConfig, ZoneConfig
from lbdns.model.farm import Farm, build_farm
from lbdns.zones.master_file import parse_zone

MEMBERS: Final = ("bilbo", "frodo", "gandalf")

#: One of everything. The SOA's minimum (300) is below its TTL (3600).
HOBBIT: Final[str] = """
$TTL 1h
@        SOA   ns hostmaster 7 1h 15m 1w 5m
@        NS    ns
@        MX    10 mail
ns       A     127.0.0.1
mail     A     127.0.0.2
bilbo    A     127.0.0.16
frodo    A     127.0.0.17
frodo    AAAA  ::17
gandalf  A     127.0.0.18
gandalf  A     127.0.0.19
gandalf  AAAA  ::18
gandalf  AAAA  ::19
gandalf  60    TXT "you shall not pass"
www      7200  CNAME best
far      CNAME www
loop1    CNAME loop2
loop2    CNAME loop1
self     CNAME self
out      CNAME www.example.org.
dangling CNAME nowhere
*.wild   300   A 127.0.0.77
*.wild   300   TXT "any"
b.a.wild A     127.0.0.78
*.alias  CNAME bilbo
deep.ent.below A 127.0.0.79
sub      NS    ns.sub
sub      NS    ns.elsewhere.example.
sub      DS    1 8 2 0000000000000000000000000000000000000000000000000000000000000000
ns.sub   A     127.0.0.80
ns.sub   AAAA  ::80
bare     NS    ns.elsewhere.example.
into     CNAME host.sub
old      DNAME new
a.new    A     127.0.0.81
pools    DNAME hobbit.
odd      TYPE65280 \\# 2 abcd
srv      SRV   0 0 80 bilbo
""" + "".join(
    [f'big TXT "{letter}{"0123456789" * 10}"\n' for letter in "abcde"]
    + [f'huge TXT "{i}-123456789012345678901234567890"\n' for i in range(100)]
)

REVERSE: Final = """
$TTL 1h
@   SOA ns.hobbit. hostmaster.hobbit. 1 1h 15m 1w 5m
@   NS  ns.hobbit.
16  PTR bilbo.hobbit.
"""


def pool(
    name: str = "web",
    zone: str = "hobbit",
    members: Sequence[str] = MEMBERS,
    names: Mapping[str, str] = DEFAULT_NAMES,
    ttl: int = 0,
    answer: AnswerForm = "cname",
    min_usable: float = 0.5,
    coherence: float = 2.0,
    answers: int = 1,
    backup: str = "",
) -> PoolConfig:
    return PoolConfig(
        name, zone, tuple(members), names, ttl, answer, min_usable, coherence=coherence, answers=answers, backup=backup
    )


def make_farm(
    zones: Mapping[str, str], pools: Sequence[PoolConfig] = (), collector: CollectorConfig | None = None
) -> Farm:
    """Return a farm with these zones (name -> master file text) and pools."""
    config = Config(
        path=Path("lbdns.toml"),
        server=ServerConfig(),
        zones=tuple(ZoneConfig(name, Path(f"{name}.zone")) for name in zones),
        pools=tuple(pools),
        collector=collector or CollectorConfig(),
    )
    return build_farm(config, [parse_zone(name, text, Path(f"{name}.zone")) for name, text in zones.items()])


def hobbit(*pools: PoolConfig, more: str = "") -> Farm:
    """Return a farm of zone ``hobbit`` with ``pools`` (default: one pool), and with ``more`` at the end of the zone."""
    return make_farm({"hobbit": HOBBIT + more, "0.0.127.in-addr.arpa": REVERSE}, pools or (pool(),))
