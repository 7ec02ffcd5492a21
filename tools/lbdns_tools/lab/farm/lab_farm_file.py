"""Reads a lab farm from a TOML file with ``[[host]]`` and ``[farm]`` tables. Unknown keys are errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lbdns.config.check_setting import parse_target
from lbdns.config.toml_reader import TomlTable, read_toml
from lbdns.text.suggestions import nearest
from lbdns_tools.lab.farm.lab_farm import DNS, HUB, NAMES, PROXIES, LabFarm, WebHost

MAX_HOSTS: Final = 200
MAX_CLIENTS: Final = 100
MAX_RESOLVERS: Final = 100
LEAST_CPU, MAX_CPU = 0.001, 1024.0  # cores
MAX_WORKERS: Final = 20_000  # each worker is a process
LEAST_MEMORY: Final = 16 * 2**20  # bytes; Apache with a few workers doesn't start in less
MAX_MEMORY: Final = 2**50
#: s; the kernel's limits for a control group's CPU period, and its minimum quota in a period (sched-bwc.rst)
PERIODS: Final = (0.001, 1.0)
MAX_ROUND_TRIP: Final = 10.0  # s
LEAST_QUOTA: Final = 0.001

SCORES: Final = ("headroom", "thesis")

_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")  # RFC 1123 section 2.1
_PATTERN: Final = re.compile(r"[a-z0-9*?-]{1,63}\Z")
#: Names reserved for a lab's other machines and for agents' control groups
_TAKEN: Final = re.compile(rf"(?:{HUB}|{DNS}|{'|'.join(PROXIES)}|(?:client|resolver)\d+|.*-agent)\Z")
_DEFAULT: Final = LabFarm(())
_HOST: Final = WebHost("", 1.0)


def read_farm(path: Path) -> LabFarm:
    """Return the farm that a file describes. Raises a ConfigError that lists every error in the file."""
    root = read_toml(path)
    table = root.section("farm")
    period = table.number("cpu_period", _DEFAULT.cpu_period, *PERIODS)
    farm = LabFarm(
        hosts=_hosts(root, period),
        clients=table.integer("clients", _DEFAULT.clients, 1, MAX_CLIENTS),
        proxies=_proxies(table),
        resolvers=table.integer("resolvers", _DEFAULT.resolvers, 0, MAX_RESOLVERS),
        resolver_min_ttl=table.integer("resolver_min_ttl", _DEFAULT.resolver_min_ttl, 0, 86_400),
        interval=table.number("interval", _DEFAULT.interval, 0.1, 3600.0),
        agents_inside=table.flag("agents_inside", _DEFAULT.agents_inside),
        check=_check(table),
        alarms=table.flag("alarms", _DEFAULT.alarms),
        joining=_joining(table),
        score=table.one_of("score", _DEFAULT.score, SCORES),
        cpu_period=period,
        near_s=table.number("near", _DEFAULT.near_s, 0.0, MAX_ROUND_TRIP),
        far_s=table.number("far", _DEFAULT.far_s, 0.0, MAX_ROUND_TRIP),
    )
    _check_sites(farm, root, table)
    if farm.resolver_min_ttl and not farm.resolvers:
        table.wrong("resolver_min_ttl", "the farm has no resolver; add resolvers = 1, or remove resolver_min_ttl")
    table.end()
    root.end()
    root.findings.raise_if_any()
    return farm


def _check_sites(farm: LabFarm, root: TomlTable, table: TomlTable) -> None:
    """Record an error if only some hosts have a site, or if a site has no client."""
    if not farm.sites:
        return
    if without := [host.name for host in farm.hosts if not host.site]:
        root.wrong("host", f"{', '.join(without)}: site is missing; either all hosts or none have a site")
    if farm.clients < len(farm.sites):
        table.wrong("clients", f"must be at least {len(farm.sites)}, so that each site has a client")


def _check(table: TomlTable) -> str:
    text = table.string("check", _DEFAULT.check)
    try:
        parse_target(text)
    except ValueError as error:
        table.wrong("check", str(error))
    return text


def _joining(table: TomlTable) -> str:
    text = table.string("joining", _DEFAULT.joining)
    if text and not _PATTERN.match(text):
        table.wrong("joining", f"{text!r} is not a pattern for host names, such as 'web-*'")
    return text


def beyond(farm: LabFarm, processors: int) -> str:
    """Return a warning if the hosts have more cores in total than this machine, or "" otherwise."""
    if farm.cpu <= processors:
        return ""
    return (
        f"the hosts have {farm.cpu:g} cores in total, but this machine has {processors}: "
        "the hosts and the load generator will receive less CPU time than specified"
    )


def _hosts(root: TomlTable, period: float) -> tuple[WebHost, ...]:
    hosts: list[WebHost] = []
    for table in root.tables("host"):
        host = WebHost(
            name=_name(table, [other.name for other in hosts]),
            cpu=_cpu(table, period),
            memory=table.integer("memory", 0, LEAST_MEMORY, MAX_MEMORY) if "memory" in table.values else 0,
            workers=table.integer("workers", _HOST.workers, 1, MAX_WORKERS),
            site=_site(table),
        )
        hosts.append(host)
        table.end()
    if not root.values.get("host"):
        root.wrong(
            "host", "is missing; add a [[host]] table for each web server, with name and cpu (in cores, such as 0.4)"
        )
    if len(hosts) > MAX_HOSTS:
        root.wrong("host", f"a lab must have at most {MAX_HOSTS} web hosts, not {len(hosts)}")
    return tuple(hosts)


def _name(table: TomlTable, others: Sequence[str]) -> str:
    name = table.required("name")
    if not name:
        return name
    if not _LABEL.match(name):
        table.wrong(
            "name", f"must be 1 to 63 letters a-z, digits or hyphens, without a hyphen at either end; found {name!r}"
        )
    elif name in NAMES or _TAKEN.match(name):
        table.wrong("name", f"{name!r} is reserved for the lab; choose another name for the host")
    elif name in others:
        table.wrong("name", f"two hosts have the name {name!r}; rename one of them")
    return name


def _site(table: TomlTable) -> str:
    site = table.string("site", _HOST.site)
    if site and not _LABEL.match(site):
        table.wrong("site", f"{site!r} is not a name of letters a-z, digits and hyphens, such as berlin")
    return site


def _cpu(table: TomlTable, period: float) -> float:
    if "cpu" not in table.values:
        table.get("cpu", float, 1.0, "")
        table.wrong("cpu", "is missing; specify the number of cores, such as 0.4")
        return 1.0
    cpu = table.number("cpu", 1.0, LEAST_CPU, MAX_CPU)
    if cpu * period < LEAST_QUOTA * (1 - 1e-9):
        table.wrong(
            "cpu",
            f"{cpu:g} cores correspond to {1000 * cpu * period:.3g} ms of CPU time per period of {1000 * period:g} "
            f"ms, but the kernel's minimum is {1000 * LEAST_QUOTA:g} ms; increase this host's cpu, or cpu_period in "
            "[farm]",
        )
    return cpu


def _proxies(table: TomlTable) -> tuple[str, ...]:
    found = table.strings("proxies")
    for place, name in enumerate(found):
        if name not in PROXIES:
            table.wrong("proxies", f"unknown value {name!r}{nearest(name, PROXIES)}")
        elif name in found[:place]:
            table.wrong("proxies", f"lists {name!r} twice; remove one of the entries")
    return found
