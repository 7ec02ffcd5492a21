"""Reads the simulator's TOML files: farm files ([[server]], [requests], [reports], [sites]), and files with scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from lbdns.config.score_section import read_scores
from lbdns.config.toml_reader import TomlTable, read_toml
from lbdns.scores import SCORES
from lbdns.scores.score import Term
from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError
from lbdns_tools.sim import scenario_parsers
from lbdns_tools.sim.simulated_requests import ALL_WORKLOADS
from lbdns_tools.sim.simulation_scenario import BACKLOG, WORKERS, Scenario, ServerSpec, SimulatedClients

_DEFAULT: Final = Scenario(())
MAX_DELAY: Final = 10_000.0  # ms: as long as a request may take


def read_farm(path: Path) -> tuple[Scenario, ...]:
    """Return one scenario for each load in a farm file. Raises ConfigError with all errors in the file."""
    root = read_toml(path)
    servers = _servers(root)
    requests, reports, sites = root.section("requests"), root.section("reports"), root.section("sites")
    loads = _loads(requests)
    rate = requests.number("rate", 0.0, 1e-6, 1e9) if "rate" in requests.values else None
    if rate is not None and "load" in requests.values:
        requests.wrong("rate", "rate and load cannot be combined")
    base = Scenario(
        servers=servers,
        workload=requests.one_of("workload", _DEFAULT.workload, ALL_WORKLOADS),
        rate=rate,
        clients=_clients(requests),
        client_sites=_client_sites(requests, [server.site for server in servers]),
        near=sites.number("near", _DEFAULT.near * 1000, 0.0, MAX_DELAY) / 1000,
        far=sites.number("far", _DEFAULT.far * 1000, 0.0, MAX_DELAY) / 1000,
        interval=reports.number("interval", _DEFAULT.interval, 0.01, 3600.0),
        loss=reports.number("loss", _DEFAULT.loss, 0.0, 1.0),
        stale_after=reports.number("stale_after", _DEFAULT.stale_after, 1.0, 1000.0),
        dns_servers=reports.integer("dns_servers", _DEFAULT.dns_servers, 1, scenario_parsers.MAX_DNS_SERVERS),
    )
    for table in (requests, reports, sites, root):
        table.end()
    root.findings.raise_if_any()
    return tuple(replace(base, load=load) for load in loads)


def _servers(root: TomlTable) -> tuple[ServerSpec, ...]:
    servers: list[ServerSpec] = []
    for table in root.tables("server"):
        server = ServerSpec(
            name=table.string("name", f"s{len(servers) + 1}"),
            speed=table.number("speed", 1.0, 1e-6, scenario_parsers.MAX_SPEED),
            cores=table.number("cores", 1.0, 1e-3, scenario_parsers.MAX_SPEED),
            workers=table.integer("workers", WORKERS, 1, 100_000),
            backlog=table.integer("backlog", BACKLOG, 0, 1_000_000),
            background=table.number("background", 0.0, 0.0, scenario_parsers.MAX_TASKS),
            site=table.string("site", ""),
            backup=table.flag("backup", False),
            quota=table.number("quota", 0.0, 1e-3, scenario_parsers.MAX_SPEED) if "quota" in table.values else 0.0,
        )
        if server.name in (other.name for other in servers):
            table.wrong("name", f"two servers are named {server.name!r}; rename one of them")
        servers.append(server)
        table.end()
    if len({server.site == "" for server in servers}) > 1:
        root.wrong("server", "some servers have a site, and others have none; give each of them a site")
    if any(server.backup for server in servers):
        if all(server.backup for server in servers):
            root.wrong("server", "every server is a backup; at least one must be a member of the pool itself")
        if any(server.site for server in servers):
            root.wrong("server", "a pool with sites cannot have a backup; remove site or backup")
    if not root.values.get("server"):
        root.wrong("server", "at least one [[server]] is required, with name, speed and cores")
    return tuple(sorted(servers, key=lambda server: server.backup))


def _clients(table: TomlTable) -> SimulatedClients:
    return table.parsed("clients", "open", scenario_parsers.parse_clients, SimulatedClients())


def _client_sites(requests: TomlTable, known: Collection[str]) -> tuple[tuple[str, float], ...]:
    table = requests.table("sites")
    if table is None:
        return ()
    for site in table.values:
        if site not in known:
            table.wrong(site, f"no server is in the site {site!r}{nearest(site, known)}")
    found = tuple((site, table.number(site, 0.0, 0.0, 1e9)) for site in table.values)
    if not any(weight for _, weight in found):
        requests.wrong("sites", "at least one site must have a weight above 0")
    table.end()
    return found


def _loads(table: TomlTable) -> tuple[float, ...]:
    value = table.values.get("load")
    if not isinstance(value, list):
        return (table.number("load", _DEFAULT.load, 1e-6, scenario_parsers.MAX_LOAD),)
    table.get("load", list, [], "a list of numbers")
    loads = [float(item) for item in value if type(item) in (int, float) and 0 < item <= scenario_parsers.MAX_LOAD]
    if not loads or len(loads) < len(value):
        table.wrong("load", f"{value!r} must be a list of numbers above 0 and at most {scenario_parsers.MAX_LOAD:g}")
        return (_DEFAULT.load,)
    return tuple(loads)


def read_score(text: str) -> tuple[str, Mapping[str, Term] | None]:
    """Return the name and the terms of a score. For a built-in score, the terms are None. Raises ConfigError.

    ``text`` is the name of a built-in score such as ``thesis``, a ``FILE.toml`` with one [score.NAME] table, or
    ``FILE.toml:NAME``.
    """
    if text in SCORES:
        return text, None
    file, _, name = text.rpartition(":") if not text.endswith(".toml") else (text, "", "")
    if not file.endswith(".toml"):
        raise ConfigError(f"--score: {text!r} is neither a built-in score nor FILE.toml:NAME{nearest(text, SCORES)}")
    root = read_toml(Path(file))
    scores = read_scores(root)
    root.findings.raise_if_any()
    if not scores:
        raise ConfigError(f"{file}: the file must contain a [score.NAME] table")
    if not name and len(scores) > 1:
        raise ConfigError(
            f"{file}: the file contains several scores; specify one: {', '.join(f'{file}:{n}' for n in scores)}"
        )
    name = name or next(iter(scores))
    if name not in scores:
        raise ConfigError(f"{file}: there is no table [score.{name}]{nearest(name, scores)}")
    return name, scores[name]
