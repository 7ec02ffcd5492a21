"""Reads a configuration, its zones and the files that map clients to sites, and builds the farm."""

from __future__ import annotations

from pathlib import Path

from lbdns.config import Config, read_config
from lbdns.config.toml_reader import TomlPlace, TomlSource
from lbdns.model.client_places import build_places
from lbdns.model.farm import Farm, build_farm
from lbdns.model.place_database import open_place_database
from lbdns.model.site_networks import SiteNetworks, build_site_networks, parse_site_networks
from lbdns.text.finding_order import in_order
from lbdns.zones.master_file import Zone, read_zone
from lbdns_shared.errors import ConfigError, ZoneFileError


def load_farm(path: Path) -> Farm:
    """Read a configuration and its zones from disk. Raises ConfigError with all errors found."""
    config, findings = read_config(path)
    try:
        farm = read_farm(config)
    except ConfigError as error:
        raise ConfigError(*in_order([*findings, *error.findings], str(path))) from None
    if findings:
        raise ConfigError(*findings)
    return farm


def read_farm(config: Config) -> Farm:
    """Read the zones of a configuration, and build the farm.

    Zones and pools whose tables contain errors are skipped. Raises ConfigError with all errors found.
    """
    zones: list[Zone] = []
    of_files: list[str] = []
    faulty = config.source.faulty if config.source else set()
    for index, zone in enumerate(config.zones):
        if ("zone", index) in faulty:
            continue
        try:
            zones.append(read_zone(zone.name, zone.file))
        except ZoneFileError as error:
            of_files.extend(error.findings)
    networks = None
    if ("sites", 0) not in faulty:
        try:
            networks = read_site_networks(config)
        except ConfigError as error:
            of_files.extend(error.findings)
    try:
        # Even if a table or a zone file is invalid, errors in the pools of the other zones are reported now
        farm = build_farm(config, zones, networks)
    except ConfigError as error:
        raise ConfigError(*error.findings, *of_files) from None
    if of_files:
        raise ConfigError(*of_files)
    return farm


def read_site_networks(config: Config) -> SiteNetworks:
    """Return the table of networks and the database of places that ``[sites]`` names.

    Raises ConfigError with all errors found in the files.
    """
    sites, findings = config.sites, list[str]()
    places, networks = None, None
    if sites.database is not None:
        try:
            places = open_place_database(sites.database, build_places(sites.places))
        except ConfigError as error:
            findings.append(_key_error(config, "database", str(error)))
    try:
        if sites.networks is None:
            networks = build_site_networks({}, sites.order, places)
        else:
            text = _text_of(sites.networks, config)
            networks = parse_site_networks(text, str(sites.networks), sites.order, sites.order, places)
    except ConfigError as error:
        findings.extend(error.findings)
    if findings or networks is None:
        raise ConfigError(*findings)
    return networks


def _text_of(path: Path, config: Config) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: the file must be UTF-8 text") from None
    except OSError as error:
        raise ConfigError(_key_error(config, "networks", f"cannot read {path}: {error.strerror}")) from None


def _key_error(config: Config, key: str, what: str) -> str:
    source = config.source or TomlSource(config.path)
    return source.error(TomlPlace("sites", 0, key), what)
