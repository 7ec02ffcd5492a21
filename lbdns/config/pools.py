"""``[[pool]]``: the web servers of one service, and the names and policies it is asked by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from lbdns.config.reading import HOST_NAME, domain_name
from lbdns.policies import POLICIES
from lbdns.policies.guard_rails.ramp import RAMP_UP
from lbdns.toml_table import Table, nearest

DEFAULT_NAMES: Final[Mapping[str, str]] = {
    "best": "best",
    "round.robin": "round_robin",
    "weighted": "weighted",
}
MAX_TTL: Final = 2**31 - 1  # seconds, RFC 2181 section 8
MAX_COHERENCE: Final = 60.0  # seconds; look-ups that belong together come within a few

MAX_RAMP_UP: Final = 3600.0  # seconds: who isn't trusted for longer is better drained

AnswerForm = Literal["cname", "address"]


@dataclass(frozen=True, slots=True)
class PoolConfig:
    name: str
    zone: str
    members: tuple[str, ...]  # relative to the zone
    names: Mapping[str, str]  # owner name relative to the zone ("@" is its apex) -> policy
    ttl: int = 0  # seconds
    answer: AnswerForm = "cname"
    min_usable: float = 0.5  # share of the members; fewer, stopped all at once, fails open
    ramp_up: float = RAMP_UP  # s in which a member that comes back gets its whole share; 0: at once
    black_hole: bool = True  # whether members that serve nothing are set aside
    shadow: str = ""  # a policy to try beside those that answer; empty: none
    coherence: float = 2.0  # s for which A, AAAA and HTTPS of one client get the same member; 0: each its own


def read_pools(root: Table) -> tuple[PoolConfig, ...]:
    pools: list[PoolConfig] = []
    for table in root.tables("pool"):
        pool = PoolConfig(
            name=table.required("name"),
            zone=domain_name(table, "zone", table.required("zone")),
            members=_members(table),
            names=_names(table),
            ttl=table.integer("ttl", 0, 0, MAX_TTL),
            answer="address" if table.one_of("answer", "cname", ("cname", "address")) == "address" else "cname",
            min_usable=table.number("min_usable", 0.5, 0.0, 1.0),
            ramp_up=table.number("ramp_up", RAMP_UP, 0.0, MAX_RAMP_UP),
            black_hole=table.flag("black_hole", True),
            shadow=_shadow(table),
            coherence=table.number("coherence", 2.0, 0.0, MAX_COHERENCE),
        )
        if pool.name in (other.name for other in pools):
            table.wrong("name", f"two pools are called {pool.name!r}; give one another name")
        pools.append(pool)
        table.end()
    return tuple(pools)


def _members(table: Table) -> tuple[str, ...]:
    members = tuple(name.lower() for name in table.strings("members"))
    if not table.values.get("members"):
        table.wrong("members", "is missing: the host names of the pool's web servers, relative to the zone")
    for name in members:
        if not HOST_NAME.match(name):
            table.wrong("members", f"{name!r} is no host name relative to the zone, such as 'gandalf'")
    for name in sorted({name for name in members if members.count(name) > 1}):
        table.wrong("members", f"{name!r} is there twice")
    return tuple(dict.fromkeys(members))


def _shadow(table: Table) -> str:
    policy = table.string("shadow")
    if policy and policy not in POLICIES:
        table.wrong("shadow", f"{policy!r}: no such policy{nearest(policy, POLICIES)}")
        return ""
    return policy


def _names(table: Table) -> Mapping[str, str]:
    names = table.table("names")
    if names is None:
        return DEFAULT_NAMES
    found: dict[str, str] = {}
    for owner, policy in names.values.items():
        name = owner.lower()
        if name != "@" and not HOST_NAME.match(name):
            table.wrong("names", f"{owner!r} is no name relative to the zone; its apex is '@'")
        if isinstance(policy, dict):
            table.wrong("names", f"{owner} = {policy!r}: no such policy; a name with dots stands in quotes")
        elif not isinstance(policy, str) or policy not in POLICIES:
            table.wrong("names", f"{owner} = {policy!r}: no such policy{nearest(str(policy), POLICIES)}")
        elif name in found:
            table.wrong("names", f"{owner!r} is there twice")
        else:
            found[name] = policy
    if not names.values:
        table.wrong("names", "is empty: nobody could ask for this pool")
    return found
