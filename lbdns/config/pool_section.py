"""``[[pool]]``: the web servers of one service, and the names that select one of them, each with its policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import HOST_NAME, domain_name
from lbdns.policies import POLICIES
from lbdns.text.suggestions import nearest

DEFAULT_NAMES: Final[Mapping[str, str]] = {"best": "best", "round.robin": "round_robin", "weighted": "weighted"}
MAX_TTL: Final = 2**31 - 1  # seconds, RFC 2181 section 8
MAX_COHERENCE: Final = 60.0  # seconds; a client looks up all address types within a few

RAMP_UP: Final = 10.0  # seconds: as long as the averages of requests and answers look back
MAX_RAMP_UP: Final = 3600.0  # seconds; to keep a member out for longer, drain it

AnswerForm = Literal["cname", "address"]


@dataclass(frozen=True, slots=True)
class PoolConfig:
    name: str
    zone: str
    members: tuple[str, ...]  # relative to the zone
    names: Mapping[str, str]  # owner name relative to the zone ("@" for its apex) -> policy
    ttl: int = 0  # seconds
    answer: AnswerForm = "cname"
    min_usable: float = 0.5  # if reports stop at once and leave a smaller share usable, the pool fails open
    ramp_up: float = RAMP_UP  # s of slow start after a member returns; 0: none
    black_hole: bool = True  # whether members that take requests and serve none are quarantined
    shadow: str = ""  # a policy to evaluate in shadow, beside those that answer; empty: none
    coherence: float = 2.0  # s in which A, AAAA and HTTPS queries of one client get the same member; 0: off


def read_pools(root: TomlTable) -> tuple[PoolConfig, ...]:
    """Return the pools of the file; report errors to the table."""
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
            table.wrong("name", f"two pools have the name {pool.name!r}; rename one of them")
        pools.append(pool)
        table.end()
    return tuple(pools)


def _members(table: TomlTable) -> tuple[str, ...]:
    members = tuple(name.lower() for name in table.strings("members"))
    if not table.values.get("members"):
        table.wrong("members", "is missing; list the host names of the web servers, relative to the zone")
    for name in members:
        if not HOST_NAME.match(name):
            table.wrong("members", f"{name!r} is not a valid host name relative to the zone, such as 'gandalf'")
    for name in sorted({name for name in members if members.count(name) > 1}):
        table.wrong("members", f"{name!r} appears twice")
    return tuple(dict.fromkeys(members))


def _shadow(table: TomlTable) -> str:
    policy = table.string("shadow")
    if policy and policy not in POLICIES:
        table.wrong("shadow", f"unknown policy {policy!r}{nearest(policy, POLICIES)}")
        return ""
    return policy


def _names(table: TomlTable) -> Mapping[str, str]:
    names = table.table("names")
    if names is None:
        return DEFAULT_NAMES
    found: dict[str, str] = {}
    for owner, policy in names.values.items():
        name = owner.lower()
        if name != "@" and not HOST_NAME.match(name):
            table.wrong("names", f"{owner!r} is not a valid name relative to the zone; write '@' for its apex")
        if isinstance(policy, dict):
            table.wrong("names", f"{owner}: unknown policy {policy!r}; put a name that contains dots in quotes")
        elif not isinstance(policy, str) or policy not in POLICIES:
            table.wrong("names", f"{owner}: unknown policy {policy!r}{nearest(str(policy), POLICIES)}")
        elif name in found:
            table.wrong("names", f"{owner!r} appears twice")
        else:
            found[name] = policy
    if not names.values:
        table.wrong("names", "is empty, so no query could select a member of this pool")
    return found
