"""lbdns.toml -> frozen dataclasses. Every default and range stands here; errors come all at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from lbdns.endpoint import DNS_PORT, HTTP_PORT, REPORT_PORT, Endpoint, parse_listen
from lbdns.metrics import CATALOGUE, Better
from lbdns.policies import POLICIES
from lbdns.toml_table import Place, Table, nearest, read_toml

DEFAULT_FILE: Final = "/etc/lbdns/lbdns.toml"
DEFAULT_NAMES: Final[Mapping[str, str]] = {
    "best": "best",
    "round.robin": "round_robin",
    "weighted": "weighted",
}
MAX_TTL: Final = 2**31 - 1  # seconds, RFC 2181 section 8
_HOST_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\Z")

_MAX_NAME: Final = 253  # characters: 255 octets in wire form, RFC 1035 section 2.3.4

AnswerForm = Literal["cname", "address"]


@dataclass(frozen=True, slots=True)
class ServerConfig:
    listen: tuple[Endpoint, ...] = (Endpoint("0.0.0.0", DNS_PORT), Endpoint("::", DNS_PORT))
    workers: int = 1
    user: str = ""
    state_dir: Path = Path("/var/lib/lbdns")
    control: Path = Path("/run/lbdns/control.sock")


@dataclass(frozen=True, slots=True)
class ZoneConfig:
    name: str  # lower case, without the final dot; the root is ""
    file: Path


@dataclass(frozen=True, slots=True)
class PoolConfig:
    name: str
    zone: str
    members: tuple[str, ...]  # relative to the zone
    names: Mapping[str, str]  # owner name relative to the zone ("@" is its apex) -> policy
    ttl: int = 0  # seconds
    answer: AnswerForm = "cname"
    min_usable: float = 0.5  # share of the members; fewer, stopped all at once, fails open


@dataclass(frozen=True, slots=True)
class Term:
    """One metric's part of a score: ``weight`` at ``limit`` (better high) or at 0 (better low).

    Better low: weight * (limit - value) / limit, and 0 above the limit. Better high:
    weight * value / limit, without an upper end unless ``cap``.
    """

    weight: float
    limit: float
    better: Better
    cap: bool = False


@dataclass(frozen=True, slots=True)
class CollectorConfig:
    listen: tuple[Endpoint, ...] = (Endpoint("0.0.0.0", REPORT_PORT),)
    key_file: Path | None = None
    stale_after: float = 3.0  # report intervals
    score: str = "thesis"
    connect: str = ""  # URL of a collector to follow instead of listening for reports
    stat_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Config:
    path: Path
    server: ServerConfig
    zones: tuple[ZoneConfig, ...]
    pools: tuple[PoolConfig, ...]
    collector: CollectorConfig
    web: Endpoint | None = Endpoint("127.0.0.1", HTTP_PORT)
    scores: Mapping[str, Mapping[str, Term]] = field(default_factory=dict)


def load_config(path: Path) -> Config:
    """Read a configuration. Raises ConfigError with every error found in the file."""
    values, findings = read_toml(path)
    root = Table(values, Place(), findings)
    base = path.resolve().parent
    scores = _scores(root)
    config = Config(
        path=path,
        server=_server(root, base),
        zones=_zones(root, base),
        pools=_pools(root),
        collector=_collector(root, base, scores),
        web=_web(root),
        scores=scores,
    )
    root.end()
    findings.raise_if_any()
    return config


def _section(root: Table, name: str) -> Table:
    return root.table(name, Place(name)) or Table({}, Place(name), root.findings)


def _server(root: Table, base: Path) -> ServerConfig:
    table = _section(root, "server")
    default = ServerConfig()
    server = ServerConfig(
        listen=table.each("listen", default.listen, lambda text: parse_listen(text, DNS_PORT)),
        workers=table.integer("workers", default.workers, 1, 256),
        user=table.string("user"),
        state_dir=base / table.string("state_dir", str(default.state_dir)),
        control=base / table.string("control", str(default.control)),
    )
    if not server.listen:
        table.wrong("listen", "names no address to answer on")
    if server.workers > 1:
        table.wrong("workers", f"{server.workers}: this version answers with one process; leave it at 1")
    table.end()
    return server


def _zones(root: Table, base: Path) -> tuple[ZoneConfig, ...]:
    zones: list[ZoneConfig] = []
    for table in root.tables("zone"):
        name = _domain_name(table, "name", table.required("name"))
        if name in (zone.name for zone in zones):
            table.wrong("name", f"{name!r} is there already: a zone is served from one file")
        zones.append(ZoneConfig(name, base / table.required("file")))
        table.end()
    if not zones and not root.findings.found:
        root.findings.add(Place(), "there is no [[zone]]; a zone needs a name and a file")
    return tuple(zones)


def _pools(root: Table) -> tuple[PoolConfig, ...]:
    pools: list[PoolConfig] = []
    for table in root.tables("pool"):
        pool = PoolConfig(
            name=table.required("name"),
            zone=_domain_name(table, "zone", table.required("zone")),
            members=_members(table),
            names=_names(table),
            ttl=table.integer("ttl", 0, 0, MAX_TTL),
            answer="address" if table.one_of("answer", "cname", ("cname", "address")) == "address" else "cname",
            min_usable=table.number("min_usable", 0.5, 0.0, 1.0),
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
        if not _HOST_NAME.match(name):
            table.wrong("members", f"{name!r} is no host name relative to the zone, such as 'gandalf'")
    for name in sorted({name for name in members if members.count(name) > 1}):
        table.wrong("members", f"{name!r} is there twice")
    return tuple(dict.fromkeys(members))


def _names(table: Table) -> Mapping[str, str]:
    names = table.table("names")
    if names is None:
        return DEFAULT_NAMES
    found: dict[str, str] = {}
    for owner, policy in names.values.items():
        name = owner.lower()
        if name != "@" and not _HOST_NAME.match(name):
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


def _collector(root: Table, base: Path, scores: Mapping[str, object]) -> CollectorConfig:
    table = _section(root, "collector")
    default = CollectorConfig()
    collector = CollectorConfig(
        listen=table.each("listen", default.listen, lambda text: parse_listen(text, REPORT_PORT)),
        key_file=_optional_path(table, "key_file", base),
        stale_after=table.number("stale_after", default.stale_after, 1.0, 1000.0),
        score=table.one_of("score", default.score, (default.score, *scores)),
        connect=table.string("connect"),
        stat_file=_optional_path(table, "stat_file", base),
    )
    if collector.connect:
        parts = urlsplit(collector.connect)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            table.wrong("connect", f"{collector.connect!r} is no URL of a collector, such as http://127.0.0.1:8053")
        for key in ("listen", "key_file"):
            if key in table.values:
                table.wrong(key, "can't stand beside connect: the collector that is followed receives the reports")
    elif not collector.listen:
        table.wrong("listen", "names no address to receive reports on")
    table.end()
    return collector


def _web(root: Table) -> Endpoint | None:
    """Where HTTP is served; ``listen = "off"`` serves none."""
    table = _section(root, "web")
    default = Endpoint("127.0.0.1", HTTP_PORT)
    text = table.string("listen", str(default))
    table.end()
    if text == "off":
        return None
    try:
        return parse_listen(text, HTTP_PORT)
    except ValueError as error:
        table.wrong("listen", f'{error}; or "off"')
        return default


def _scores(root: Table) -> Mapping[str, Mapping[str, Term]]:
    tables = root.table("score", Place("score"))
    scores: dict[str, Mapping[str, Term]] = {}
    for name in tables.values if tables else ():
        place = Place(f"score.{name}")
        table = tables.table(name, place) if tables else None
        if table is None:
            continue
        if name == "thesis":
            root.findings.add(place, "this score is built in; give yours another name")
        scores[name] = {metric: _term(table, metric) for metric in table.values}
        if not any(term.weight > 0 for term in scores[name].values()):
            root.findings.add(place, "no metric has a weight; every member would score 0")
    return scores


def _term(table: Table, metric: str) -> Term:
    """``metric = { weight = W, limit = L }``, with ``better`` for a metric that is not in the catalogue."""
    known = CATALOGUE.get(metric)
    term = table.table(metric)
    if term is None:
        return Term(0.0, 1.0, "low")
    better = term.string("better", (known.better if known else None) or "")
    if better not in ("low", "high"):
        near = "" if known else nearest(metric, CATALOGUE)
        table.wrong(metric, f'say which way is better: better = "low" or "high"{near}')
    result = Term(
        weight=term.number("weight", 0.0, 0.0, 1e9),
        limit=term.number("limit", 1.0, 1e-9, 1e15),
        better="low" if better == "low" else "high",
        cap=term.flag("cap", False),
    )
    for key in ("weight", "limit"):
        if key not in term.values:
            table.wrong(metric, f"{key} is missing: {metric} = {{ weight = 20, limit = 100 }}")
    term.end()
    return result


def _domain_name(table: Table, key: str, text: str) -> str:
    """A domain name in lower case without its final dot."""
    name = text.lower().removesuffix(".")
    if len(name) > _MAX_NAME or (name and not _HOST_NAME.match(name.replace("/", "-"))):
        table.wrong(key, f"{text!r} is no domain name")
    return name


def _optional_path(table: Table, key: str, base: Path) -> Path | None:
    text = table.string(key)
    return base / text if text else None
