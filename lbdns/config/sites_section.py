"""Read ``[sites]``, the sites that pools may have members in, and the ``sites`` of a pool."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lbdns.config.places_setting import NO_PLACES, PlacesConfig, read_places
from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import HOST_NAME, key, optional_path, read_fields
from lbdns.text.suggestions import nearest

MAX_SITES: Final = 64


def _order(table: TomlTable, name: str, _: object) -> tuple[str, ...]:
    sites = table.strings(name)
    for site in sites:
        if not HOST_NAME.match(site) or "." in site:
            table.wrong(name, f"{site!r} is not a valid name for a site; write, for example, 'berlin'", site)
    for site in sorted({site for site in sites if sites.count(site) > 1}):
        table.wrong(name, f"{site!r} appears twice", site)
    if len(sites) > MAX_SITES:
        table.wrong(name, f"lists {len(sites)} sites, but at most {MAX_SITES} are supported")
    return tuple(dict.fromkeys(sites))[:MAX_SITES]


@dataclass(frozen=True, slots=True)
class SitesConfig:
    order: tuple[str, ...] = key(_order, ())  # every site, in the order for clients in no known network or place
    networks: Path | None = optional_path()  # the table of networks
    database: Path | None = optional_path()  # the MaxMind database with the places of all other networks
    places: PlacesConfig = NO_PLACES  # of clients


def read_sites(table: TomlTable) -> SitesConfig:
    """Return the section ``[sites]``, and record any errors in it."""
    found = replace(read_fields(SitesConfig, table), places=read_places(table))
    _check(found, table)
    table.end()
    return found


def _check(sites: SitesConfig, table: TomlTable) -> None:
    if table.values and "order" not in table.values:
        table.wrong("order", 'is missing; list all sites, for example order = ["berlin", "paris"]')
    elif table.values and not sites.order:
        table.wrong("order", 'is empty; list all sites, for example order = ["berlin", "paris"]')


NO_SITES: Final = SitesConfig()


#: Sites, and the members of each
PoolSitesConfig = tuple[tuple[str, tuple[str, ...]], ...]


def read_pool_sites(table: TomlTable, name: str, _: object) -> PoolSitesConfig:
    """Return the members of each of a pool's sites, as the key ``name`` lists them."""
    sites = table.table(name)
    if sites is None:
        return ()
    if not sites.values:
        table.wrong(name, 'is empty; list the members of each site, for example { berlin = ["gandalf"] }')
    return tuple((site, tuple(member.lower() for member in sites.strings(site))) for site in sites.values)


def check_pool_sites(sites: PoolSitesConfig, members: tuple[str, ...], known: SitesConfig, table: TomlTable) -> None:
    """Record an error for each unknown site, and for each member that is not in exactly one site."""
    for site, names in sites:
        if not known.order:
            table.wrong("sites", f"there is no site {site!r}; list the sites in [sites] order")
        elif site not in known.order:
            table.wrong("sites", f"there is no site {site!r} in [sites] order{nearest(site, known.order)}")
        if not names:
            table.wrong("sites", f"site {site!r} has no member; add one, or remove the site")
    places = [(member, site) for site, names in sites for member in names]
    for member in dict.fromkeys(member for member, _ in places):
        found = [site for other, site in places if other == member]
        if member not in members:
            table.wrong("sites", f"{member!r} is not in members{nearest(member, members)}", member)
        elif len(found) > 1:
            where = f"in the sites {' and '.join(found)}" if len(set(found)) > 1 else f"twice in site {found[0]}"
            table.wrong("sites", f"{member!r} is {where}; each member must be in one site", member)
    for member in members:
        if sites and member not in dict(places):
            table.wrong("sites", f"{member!r} is in no site; each member must be in one site", member)
