"""Read ``[[pool]]``, which lists the web servers of a service, and the policy for each name that clients query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from lbdns.config import value_readers as read
from lbdns.config.check_setting import NO_CHECK, OFF, CheckConfig, read_check
from lbdns.config.join_setting import JoinConfig, read_join
from lbdns.config.sites_section import NO_SITES, PoolSitesConfig, SitesConfig, check_pool_sites, read_pool_sites
from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import HOST_NAME
from lbdns.policies import POLICIES
from lbdns.text.suggestions import nearest

DEFAULT_NAMES: Final[Mapping[str, str]] = {"best": "best", "round.robin": "round_robin", "weighted": "weighted"}
LEAST_WEIGHT: Final = 0.01
GREATEST_WEIGHT: Final = 100.0
MAX_TTL: Final = 2**31 - 1  # seconds, RFC 2181 section 8
MAX_SPEED_GAIN: Final = 1.4  # times the share at the next fastest member's speed: others confirm no more
RAMP_UP: Final = 10.0  # seconds: the period over which requests and answers are averaged
APEX: Final = "@"  # answered with addresses, because a CNAME is illegal there
MAX_ANSWERS: Final = 16  # members: their IPv4 addresses fit into 512 bytes, which every client accepts

AnswerForm = Literal["cname", "address"]


def _members(table: TomlTable, key: str, _: object) -> tuple[str, ...]:
    members = tuple(name.lower() for name in table.strings(key))
    if not table.values.get(key) and "join" not in table.values:
        table.wrong(key, "is missing; list the host names of the web servers, relative to the zone")
    for name in members:
        if not HOST_NAME.match(name):
            table.wrong(key, f"{name!r} is not a host name relative to the zone; write, for example, 'gandalf'", name)
    for name in sorted({name for name in members if members.count(name) > 1}):
        table.wrong(key, f"{name!r} appears twice")
    return tuple(dict.fromkeys(members))


def _shadow(table: TomlTable, key: str, _: object) -> str:
    policy = table.string(key)
    if policy and policy not in POLICIES:
        table.wrong(key, f"unknown policy {policy!r}{nearest(policy, POLICIES)}")
        return ""
    return policy


def _names(table: TomlTable, key: str, _: object) -> Mapping[str, str]:
    names = table.table(key)
    if names is None:
        return DEFAULT_NAMES
    found: dict[str, str] = {}
    for owner, policy in names.values.items():
        name = owner.lower()
        if name != APEX and not HOST_NAME.match(name):
            table.wrong(key, f"{owner!r} is not a valid name relative to the zone; write '@' for the zone's apex")
        if isinstance(policy, dict):
            table.wrong(key, f"{owner}: unknown policy {policy!r}; quote any name that contains dots")
        elif not isinstance(policy, str) or policy not in POLICIES:
            table.wrong(key, f"{owner}: unknown policy {policy!r}{nearest(str(policy), POLICIES)}")
        elif name in found:
            table.wrong(key, f"{owner!r} appears twice")
        else:
            found[name] = policy
    if not names.values:
        table.wrong(key, "is empty, so no member of this pool could be selected; add a name with a policy")
    return found


def _agentless(table: TomlTable, key: str, _: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.lower() for name in table.strings(key)))


def _weights(table: TomlTable, key: str, _: object) -> tuple[tuple[str, float], ...]:
    weights = table.table(key)
    if weights is None:
        return ()
    found = [(name.lower(), weights.number(name, 1.0, LEAST_WEIGHT, GREATEST_WEIGHT)) for name in weights.values]
    if len(dict(found)) < len(found):
        table.wrong(key, "a name appears twice")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class PoolConfig:
    name: str = read.required()
    zone: str = read.required_domain()
    members: tuple[str, ...] = read.key(_members)  # relative to the zone
    names: Mapping[str, str] = read.key(_names)  # owner name relative to the zone ("@" for its apex) -> policy
    ttl: int = read.integer(0, 0, MAX_TTL)  # seconds
    answer: AnswerForm = read.one_of("cname", ("cname", "address"))
    min_usable: float = read.number(0.5, 0.0, 1.0)  # fail open if many reports stop together and fewer are usable
    answers: int = read.integer(1, 1, MAX_ANSWERS)  # how many members an answer names, best first
    ramp_up: float = read.number(RAMP_UP, 0.0, 3600.0)  # s of slow start after a member returns; 0: none
    black_hole: bool = read.flag(True)  # whether members that take requests and serve none are quarantined
    max_cores: float = read.number(0.0, 0.0, 1e6)  # most cores that count for a member; 0: 4 times the pool's median
    check: CheckConfig = read.key(read_check, NO_CHECK)  # how the collector checks a member whose report is overdue
    join: JoinConfig | None = read.key(read_join, None)  # the hosts that may join by reporting; None: no host
    agentless: tuple[str, ...] = read.key(_agentless, ())  # members without an agent, which only the check watches
    weights: tuple[tuple[str, float], ...] = read.key(_weights, ())  # members, and the factors of their capacities
    max_speed_gain: float = read.number(MAX_SPEED_GAIN, 1.0, 1000.0)  # limits the fastest member's advantage
    backup: str = read.string("")  # the pool to use if this one is full or has no usable member; empty: none
    sites: PoolSitesConfig = read.key(read_pool_sites, ())  # sites, and the members of each
    shadow: str = read.key(_shadow, "")  # a policy to evaluate in shadow, alongside those that answer; empty: none
    coherence: float = read.number(
        2.0, 0.0, 60.0
    )  # s for which a client's A, AAAA and HTTPS queries get the same member; 0: off


def read_pools(root: TomlTable, sites: SitesConfig = NO_SITES) -> tuple[PoolConfig, ...]:
    """Return the pools in the file, whose sites must be among ``sites``. All errors are added to the findings of
    ``root``."""
    pools: list[PoolConfig] = []
    tables: list[TomlTable] = []
    for table in root.tables("pool"):
        pool = read.read_fields(PoolConfig, table)
        if pool.name in (other.name for other in pools):
            table.wrong("name", f"two pools have the name {pool.name!r}; rename one of them")
        _check_members(pool, table)
        _check_answers(pool, table)
        check_pool_sites(pool.sites, pool.members, sites, table)
        _check_keys_with_sites(pool, table)
        pools.append(pool)
        tables.append(table)
        table.end()
    by_name = {pool.name: pool for pool in pools}
    for pool, table in zip(pools, tables, strict=True):
        _check_backup(pool, by_name, table)
    return tuple(pools)


def _check_backup(pool: PoolConfig, pools: Mapping[str, PoolConfig], table: TomlTable) -> None:
    """Record an error if a pool's backup is unknown, the pool itself, or a pool that has a backup of its own.

    Chains are not allowed, because a demand that moves through several pools would be estimated from ever older
    reports, and no pool would know which clients it may send on.
    """
    name = pool.backup
    if not name:
        return
    if name not in pools:
        table.wrong("backup", f"there is no [[pool]] {name!r}{nearest(name, [n for n in pools if n != pool.name])}")
    elif name == pool.name:
        table.wrong("backup", f"{name!r} is this pool itself; name another pool in the same zone")
    elif pools[name].backup:
        also = f"has a backup itself ({pools[name].backup!r}), and chains are not supported"
        table.wrong("backup", f"pool {name!r} {also}; remove the backup from one of these pools")


def _check_keys_with_sites(pool: PoolConfig, table: TomlTable) -> None:
    """Record an error for each key that a pool with sites cannot have."""
    if not pool.sites:
        return
    if pool.backup:
        table.wrong("backup", "a pool with sites cannot have a backup; make the backup's members a site of this pool")
    if pool.join:
        table.wrong("join", "hosts cannot join a pool with sites, because they would be in no site; list them all")
    if pool.shadow:
        table.wrong("shadow", "a pool with sites cannot have a shadow; remove one of the two keys")


def _check_members(pool: PoolConfig, table: TomlTable) -> None:
    """Record an error for each name in ``agentless`` or ``weights`` that is not a member, and for each agentless member
    without a check."""
    for key, names in (("agentless", pool.agentless), ("weights", tuple(dict(pool.weights)))):
        for name in names:
            may_join = key == "weights" and pool.join is not None and pool.join.permits_name(name)
            if pool.members and name not in pool.members and not may_join:
                table.wrong(key, f"{name!r} is not in members{nearest(name, pool.members)}", name)
    if pool.agentless and pool.check.target is None and table.values.get("check", OFF) == OFF:
        table.wrong("agentless", 'members without an agent need a check; add, for example, check = "tcp:80"')


def _check_answers(pool: PoolConfig, table: TomlTable) -> None:
    """Record an error if answers of several members are configured for a name that is answered with a CNAME."""
    aliases = [name for name in pool.names if name != APEX]
    if pool.answers > 1 and table.values.get("answer", "cname") == "cname" and aliases:
        what = f"must be 1, not {pool.answers}, because {aliases[0]!r} is answered with a CNAME, which names one member"
        table.wrong("answers", f'{what}; set answer = "address" to name several members')
