"""``lbdns check``: read a configuration and every file that it names, and print a summary or all errors."""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lbdns.answering import plane
from lbdns.command_line.common_options import config_option
from lbdns.config import Config, read_config
from lbdns.model.farm import Farm, Pool, load_farm
from lbdns.planning.shadow import shadows_of
from lbdns.secrets.http_credentials import read_credentials, read_tokens
from lbdns.secrets.key_files import read_cookie_secrets
from lbdns.server.forwarding.forwarder import check_upstreams
from lbdns.text.source_excerpt import excerpt
from lbdns.zones import names
from lbdns.zones.master_file import Zone
from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import KeyFile, read_key_file

T = TypeVar("T")
_FINDING: Final = re.compile(r"(?P<file>.+?):(?P<line>[1-9]\d*): (?P<what>.*)", re.DOTALL)
_SECRET_TABLE: Final = re.compile(r"""\s*\[\[?\s*["']?key["']?\s*[\].]""")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a successful check: the configuration, the contents of its key file (if any) and any warnings."""

    farm: Farm
    keys: KeyFile | None
    warnings: tuple[str, ...]


@click.command(
    epilog="Exit status: 0 if the configuration is valid, 2 if not. Errors have the form FILE:LINE: where: what, "
    "followed by the source line with the place of the error marked."
)
@config_option
def check(config: Path) -> None:
    """Check the configuration. If the configuration is valid, print a summary; otherwise, print all errors.

    The command reads the configuration, all zone files and all key files. The command opens no ports and contacts no
    other machine.

    \b
    Examples:
      lbdns check
      lbdns check -c zones/lbdns.toml
    """
    try:
        checked = read_all(config)
    except ConfigError as error:
        raise ConfigError(*with_excerpts(error.findings, config)) from None
    for line in summary(checked):
        click.echo(line)


def in_order(findings: Sequence[str]) -> list[str]:
    """Return the error messages, grouped by file, in the order of the lines in each file."""
    keys = [(m["file"], int(m["line"])) if (m := _FINDING.match(text)) else (text, 0) for text in findings]
    files = [file for file, _ in keys]
    places = [(files.index(file), line, at) for at, (file, line) in enumerate(keys)]
    return [findings[at] for _, _, at in sorted(places)]


def with_excerpts(findings: Iterable[str], path: Path) -> Iterator[str]:
    """Yield the error messages, each followed by its source line with the place of the error marked.

    The output may end up in a log, so only the configuration at ``path`` and master files are quoted, and only if all
    users can read the file.
    """
    lines_of: dict[str, list[str]] = {}
    for finding in findings:
        yield finding
        match = _FINDING.match(finding)
        if match is None or not (match["file"] == str(path) or match["what"].startswith("zone ")):
            continue
        if match["file"] not in lines_of:
            lines_of[match["file"]] = _public_lines(Path(match["file"]))
        number, lines = int(match["line"]), lines_of[match["file"]]
        if number <= len(lines) and (quoted := excerpt(number, lines[number - 1], match["what"])):
            yield quoted


def _public_lines(path: Path) -> list[str]:
    """Return the lines of a file, with [[key]] tables left blank, or an empty list if some users cannot read the file.

    The mode of the file itself counts. The modes of the directories above do not count.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not (stat.S_ISREG(mode) and mode & stat.S_IROTH):
                return []
            lines = file.read().splitlines()
    except OSError:
        return []
    is_secret = False
    for at, line in enumerate(lines):
        if line.lstrip().startswith("["):
            is_secret = bool(_SECRET_TABLE.match(line))
        if is_secret:
            lines[at] = ""
    return lines


def read_all(path: Path) -> CheckResult:
    """Read a configuration and all zone, key and secret files that the configuration names.

    Raises a ConfigError that contains all errors found.
    """
    config, _ = read_config(path)  # _farm reports the errors
    faulty = {header for header, _ in config.source.faulty} if config.source else set()
    findings: list[str] = []
    warnings: list[str] = []

    def attempt(read: Callable[..., tuple[T, Iterable[str]]], *arguments: Any) -> T | None:
        try:
            found, notes = read(*arguments)
        except ConfigError as error:
            findings.extend(error.findings)
            return None
        warnings.extend(notes)
        return found

    collector = config.collector
    farm = attempt(_farm, path)
    keys = attempt(_report_keys, collector.key_file) if collector.key_file else None
    if config.cookies.secret_file:
        attempt(read_cookie_secrets, config.cookies.secret_file)
    if "web" not in faulty:
        attempt(read_credentials, config.web)
    if collector.connect_token_file:
        attempt(read_tokens, collector.connect_token_file, "[collector] connect_token_file")
    if findings or farm is None:
        raise ConfigError(*in_order(findings))
    return CheckResult(farm, keys, (*warnings, *_about_this_machine(config)))


def _farm(path: Path) -> tuple[Farm, Iterable[str]]:
    farm = load_farm(path)
    return farm, farm.warnings


def _report_keys(path: Path) -> tuple[KeyFile, Iterable[str]]:
    keys, warnings = read_key_file(path)
    if not keys.masters:
        raise ConfigError(
            f"{path}: the key file must contain a master key to verify reports; run 'lbdns keygen' to generate one"
        )
    return keys, warnings


def _about_this_machine(config: Config) -> Iterator[str]:
    """Yield the problems with this machine that would prevent ``lbdns serve`` from starting.

    Problems with the files are excluded.
    """
    if config.server.user:
        try:
            pwd.getpwnam(config.server.user)
        except KeyError:
            yield f"{config.path}: [server] user: unknown user {config.server.user!r}, so the server will not start"
    if config.server.plane == "native" and not plane.AVAILABLE:
        yield f"{config.path}: [server] plane: the native extension is not installed, so the server will not start"
    try:
        check_upstreams(config)
    except ConfigError as error:
        yield from (f"{finding}, so the server will not start" for finding in error.findings)


def summary(checked: CheckResult) -> Iterator[str]:
    """Yield the lines of the summary: zones, pools, addresses, reports and warnings."""
    config = checked.farm.config
    yield f"{config.path}: good"
    for zone in checked.farm.zones.values():
        yield _about_zone(zone, config)
    for pool in checked.farm.pools:
        yield from _about_pool(pool)
        for tried in shadows_of(pool.config, config.collector):
            score = f" by score {tried.score}" if tried.score else ""
            yield f"  shadow  of {tried.live}: {tried.policy}{score}"
    others = f", one of {config.server.dns_servers} servers" if config.server.dns_servers > 1 else ""
    yield f"DNS on {_listed(config.server.listen)}{others}"
    yield _about_reports(checked)
    yield f"HTTP on {config.web.listen}" if config.web.listen else "HTTP: off"
    if config.forward.upstream:
        yield f"forwarding to {_listed(config.forward.upstream)} for {_listed(config.forward.allow)}"
    if checked.warnings:
        yield f"warnings: {len(checked.warnings)}"
        yield from (f"  {warning}" for warning in checked.warnings)


def _about_zone(zone: Zone, config: Config) -> str:
    records = sum(len(rrset.rdatas) for node in zone.nodes.values() for rrset in node.values())
    configured = next(configured for configured in config.zones if configured.name == zone.name)
    content = f"serial {zone.serial}, {len(zone.nodes)} names, {records} records, from {configured.file}"
    return f"zone {zone.name or '.'}: {content}{'; secondaries may transfer it' if configured.transfer else ''}"


def _about_pool(pool: Pool) -> Iterator[str]:
    config = pool.config
    yield f"pool {pool.name} in zone {config.zone or '.'}: TTL {config.ttl}, answers as {config.answer}"
    width = max(len(text) for text in (*map(names.to_text, pool.owners), *(m.full_name for m in pool.members)))
    for owner, policy in pool.owners.items():
        yield f"  name    {names.to_text(owner):<{width}}  {policy}"
    for member in pool.members:
        yield f"  member  {member.full_name:<{width}}  {' '.join(member.addresses)}"


def _about_reports(checked: CheckResult) -> str:
    collector = checked.farm.config.collector
    if collector.connect:
        return f"reports: from the collector at {collector.connect}"
    where = f"reports on {_listed(collector.listen)}, score {collector.score}"
    if checked.keys is None:
        return f"{where}; no key file: reports must come from the member's own address"
    count = len(checked.keys.masters)
    return f"{where}; signed, {count} master {'key' if count == 1 else 'keys'} in {collector.key_file}"


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
