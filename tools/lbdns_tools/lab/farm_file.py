"""A farm of one's own from a TOML file: ``[[host]]`` tables and ``[farm]``; as strict as lbdns.toml."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lbdns.config.reading import section
from lbdns.toml_table import Place, Table, nearest, read_toml
from lbdns_tools.lab.addresses import DNS, HUB
from lbdns_tools.lab.farm import NAMES, PROXIES, Farm, WebHost

MAX_HOSTS: Final = 200
MAX_CLIENTS: Final = 100
MAX_RESOLVERS: Final = 100
LEAST_CPU, MAX_CPU = 0.001, 1024.0  # cores
MAX_WORKERS: Final = 20_000  # a process each
LEAST_MEMORY: Final = 16 * 2**20  # bytes; Apache with a few workers doesn't start in less
MAX_MEMORY: Final = 2**50
#: s; what the kernel takes for the period of a group, and for its quota in it at least (its sched-bwc document)
PERIODS: Final = (0.001, 1.0)
LEAST_QUOTA: Final = 0.001

_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")  # RFC 1123 section 2.1
#: What other machines of a lab are called, and groups of agents
_TAKEN: Final = re.compile(rf"(?:{HUB}|{DNS}|{'|'.join(PROXIES)}|(?:client|resolver)\d+|.*-agent)\Z")
_DEFAULT: Final = Farm(())
_HOST: Final = WebHost("", 1.0)


def read_farm(path: Path) -> Farm:
    """What the file says. Raises ConfigError with every error found in the file."""
    values, findings = read_toml(path)
    root = Table(values, Place(), findings)
    table = section(root, "farm")
    period = table.number("cpu_period", _DEFAULT.cpu_period, *PERIODS)
    farm = Farm(
        hosts=_hosts(root, period),
        clients=table.integer("clients", _DEFAULT.clients, 1, MAX_CLIENTS),
        proxies=_proxies(table),
        resolvers=table.integer("resolvers", _DEFAULT.resolvers, 0, MAX_RESOLVERS),
        resolver_min_ttl=table.integer("resolver_min_ttl", _DEFAULT.resolver_min_ttl, 0, 86_400),
        interval=table.number("interval", _DEFAULT.interval, 0.1, 3600.0),
        agents_inside=table.flag("agents_inside", _DEFAULT.agents_inside),
        cpu_period=period,
    )
    if farm.resolver_min_ttl and not farm.resolvers:
        table.wrong("resolver_min_ttl", "there is no resolver; write resolvers = 1 as well, or leave it out")
    table.end()
    root.end()
    findings.raise_if_any()
    return farm


def beyond(farm: Farm, processors: int) -> str:
    """A note if the hosts have more processor than the machine, "" if not: they get less then, and load gets none."""
    if farm.cpu <= processors:
        return ""
    return (
        f"the hosts have {farm.cpu:g} cores together and this machine has {processors}: "
        "they will get less than the file says, and so will what loads them"
    )


def _hosts(root: Table, period: float) -> tuple[WebHost, ...]:
    hosts: list[WebHost] = []
    for table in root.tables("host"):
        host = WebHost(
            name=_name(table, [other.name for other in hosts]),
            cpu=_cpu(table, period),
            memory=table.integer("memory", 0, LEAST_MEMORY, MAX_MEMORY) if "memory" in table.values else 0,
            workers=table.integer("workers", _HOST.workers, 1, MAX_WORKERS),
        )
        hosts.append(host)
        table.end()
    if not root.values.get("host"):
        root.wrong("host", "there is no [[host]]: name and cpu (cores, such as 0.4) of each web server")
    if len(hosts) > MAX_HOSTS:
        root.wrong("host", f"{len(hosts)} are too many; a lab has at most {MAX_HOSTS} web hosts")
    return tuple(hosts)


def _name(table: Table, others: Sequence[str]) -> str:
    name = table.required("name")
    if not name:
        return name
    if not _LABEL.match(name):
        table.wrong("name", f"{name!r} is no name of a host; write 1 to 63 of a-z, 0-9 and -, no - at either end")
    elif name in NAMES or _TAKEN.match(name):
        table.wrong("name", f"{name!r} is taken by the lab itself; give the host another name")
    elif name in others:
        table.wrong("name", f"two hosts are called {name!r}; give one another name")
    return name


def _cpu(table: Table, period: float) -> float:
    if "cpu" not in table.values:
        table.get("cpu", float, 1.0, "")
        table.wrong("cpu", "is missing; write cores, such as 0.4")
        return 1.0
    cpu = table.number("cpu", 1.0, LEAST_CPU, MAX_CPU)
    if cpu * period < LEAST_QUOTA * (1 - 1e-9):
        table.wrong(
            "cpu",
            f"{cpu:g} cores are {1000 * cpu * period:.3g} ms of each {1000 * period:g} ms, and the kernel gives "
            f"{1000 * LEAST_QUOTA:g} ms at least; write more, or a longer cpu_period in [farm]",
        )
    return cpu


def _proxies(table: Table) -> tuple[str, ...]:
    found = table.strings("proxies")
    for place, name in enumerate(found):
        if name not in PROXIES:
            table.wrong("proxies", f"{name!r} is not known{nearest(name, PROXIES)}")
        elif name in found[:place]:
            table.wrong("proxies", f"{name!r} stands there twice")
    return found
