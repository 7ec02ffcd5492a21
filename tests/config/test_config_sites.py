"""Tests of [sites] and [[pool]] sites: what they may contain, and mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.config import SitesConfig
from lbdns_shared.errors import ConfigError
from tests.config.config_files import ZONE, Load, pool_table

SITES = '[sites]\norder = ["ber", "par"]\n'
BOTH = 'sites = { par = ["frodo"], ber = ["gandalf"] }'


def farm(sites: str = SITES, more: str = BOTH) -> str:
    return ZONE + sites + pool_table("gandalf", "frodo", more=more)


def test_the_members_of_each_site(load: Load, tmp_path: Path) -> None:
    found = load(farm(SITES + 'networks = "networks"\n'))
    assert found.sites.order == ("ber", "par")
    assert found.sites.networks == found.path.parent / "networks"
    assert found.sites.networks in found.files
    assert dict(found.pools[0].sites) == {"ber": ("gandalf",), "par": ("frodo",)}


def test_without_sites(load: Load) -> None:
    found = load(ZONE + pool_table())
    assert found.sites == SitesConfig()
    assert found.pools[0].sites == ()


@pytest.mark.parametrize(
    ("sites", "more", "error"),
    [
        ("[sites]\norder = []\n", "", r"order.*is empty; list all sites"),
        ('[sites]\nnetworks = "n"\n', "", r"order.*is missing; list all sites"),
        ('[sites]\norder = ["ber", "ber"]\n', "", r"'ber' appears twice"),
        ('[sites]\norder = ["b r"]\n', "", r"'b r' is not a valid name for a site"),
        ('[sites]\norder = ["b.r"]\n', "", r"'b.r' is not a valid name for a site"),
        ("", BOTH, r"there is no site 'par'; list the sites in \[sites\] order"),
        ('[sites]\norder = ["ber", "pax"]\n', BOTH, r"there is no site 'par' in \[sites\] order.*'pax'"),
        (SITES, "sites = {}", r"sites.*is empty"),
        (SITES, 'sites = { ber = ["gandalf", "frodo"], par = [] }', r"site 'par' has no member"),
        (SITES, 'sites = { ber = ["gandalf"] }', r"'frodo' is in no site"),
        (SITES, 'sites = { ber = ["gandalf"], par = ["frodo", "gandalf"] }', r"'gandalf' is in the sites ber and par"),
        (SITES, 'sites = { ber = ["gandalf", "gandalf"], par = ["frodo"] }', r"'gandalf' is twice in site ber"),
        (SITES, 'sites = { ber = ["gandalf"], par = ["frod"] }', r"'frod' is not in members.*'frodo'"),
        (SITES, BOTH + '\nshadow = "weighted"', r"shadow.*a pool with sites cannot have a shadow"),
        (SITES, BOTH + '\njoin = { names = "w*", networks = ["10.0.0.0/8"] }', r"join.*cannot join a pool with sites"),
        (SITES, BOTH + '\nbackup = "spare"', r"backup.*a pool with sites cannot have a backup"),
    ],
)
def test_mistakes(load: Load, sites: str, more: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        load(farm(sites, more))
