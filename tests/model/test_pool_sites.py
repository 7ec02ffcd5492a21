"""Tests of a pool's sites: their members, the orders of the clients, and orders that a reload keeps."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path

import pytest

from lbdns.model.farm_reader import load_farm
from lbdns.model.pool_sites import MAX_ORDERS, PoolSites, same_orders
from lbdns_shared.errors import ConfigError
from tests.config.config_files import ZONE, pool_table
from tests.mmdb_files import database, place

ZONE_FILE = "@ 60 SOA ns hostmaster 1 1h 15m 1w 5m\n@ NS ns\nns A 127.0.0.1\ngandalf A 127.0.0.2\nfrodo A 127.0.0.3\n"
SITES = '[sites]\norder = ["ber", "nyc", "par"]\nnetworks = "networks"\n'


def write(folder: Path, networks: str | None, sites: str = SITES) -> Path:
    (folder / "hobbit.zone").write_text(ZONE_FILE)
    if networks is not None:
        (folder / "networks").write_text(networks)
    config = folder / "lbdns.toml"
    config.write_text(
        ZONE + sites + pool_table("gandalf", "frodo", more='sites = {par = ["gandalf"], ber = ["frodo"]}')
    )
    return config


def pool_sites(folder: Path, networks: str | None, sites: str = SITES) -> PoolSites:
    found = load_farm(write(folder, networks, sites)).pools[0].sites
    assert found is not None
    return found


def test_a_pool_uses_only_its_own_sites(tmp_path: Path) -> None:
    sites = pool_sites(tmp_path, "10.0.0.0/8 nyc par\n10.1.0.0/16 ber par\n")
    assert dict(sites.members) == {"ber": [1], "par": [0]}
    assert list(sites.members) == ["ber", "par"]
    assert sites.orders == (("ber", "par"), ("par", "ber"))
    assert sites.networks.match(IPv4Address("10.2.0.0")).order == ("par", "ber")
    assert sites.networks.match(IPv4Address("10.1.0.0")).order == ("ber", "par")


def test_without_a_table_all_clients_have_the_default_order(tmp_path: Path) -> None:
    sites = pool_sites(tmp_path, None, SITES.replace('networks = "networks"\n', ""))
    assert sites.orders == (("ber", "par"),)
    assert sites.networks.match(IPv4Address("10.1.0.0")).scope == 0


def test_mistakes_in_the_table_name_its_lines(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as found:
        load_farm(write(tmp_path, "10.0.0.0/8 ber\n10.0.0.1/8 ber\n10.1.0.0/16 bre\n"))
    assert [str(tmp_path / "networks:2"), str(tmp_path / "networks:3")] == [
        error.partition(": ")[0] for error in str(found.value).splitlines()
    ]


def test_a_missing_table_is_a_mistake_at_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"lbdns.toml:6: .*networks: cannot read .*networks: No such file"):
        load_farm(write(tmp_path, None))


def test_a_pool_with_too_many_orders_is_a_mistake(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(MAX_ORDERS)]
    networks = "".join(f"10.{number}.0.0/16 {name}\n" for number, name in enumerate(names))
    order = ", ".join(f'"{name}"' for name in names)
    config = write(tmp_path, networks)
    (tmp_path / "hobbit.zone").write_text(ZONE_FILE + "".join(f"m-{name} A 127.0.0.4\n" for name in names))
    members = ", ".join(f'{name} = ["m-{name}"]' for name in names)
    pool = pool_table(*(f"m-{name}" for name in names), more=f"sites = {{ {members} }}")
    config.write_text(ZONE + f'[sites]\norder = [{order}]\nnetworks = "networks"\n' + pool)
    found = load_farm(config).pools[0].sites
    assert found is not None
    assert len(found.orders) == MAX_ORDERS, "the default order is also that of a network"
    (tmp_path / "networks").write_text(networks + "10.200.0.0/16 s2 s1\n")
    with pytest.raises(ConfigError, match=rf"into {MAX_ORDERS + 1} different orders, but at most {MAX_ORDERS}"):
        load_farm(config)


def test_orders_that_a_reload_keeps(tmp_path: Path) -> None:
    before, now = pool_sites(tmp_path, "10.0.0.0/8 par\n"), pool_sites(tmp_path, "")
    assert same_orders(before, now) == [0, None]
    assert same_orders(now, before) == [0]
    assert same_orders(None, None) == [0]
    assert same_orders(None, before) == [None]
    assert same_orders(before, None) == [None, None]


PLACES = 'database = "places.mmdb"\ncountries = { FR = ["par"], US = ["nyc", "par"] }\n'


def test_a_database_decides_outside_the_networks(tmp_path: Path) -> None:
    records = {"10.0.0.0/8": place("EU", "FR"), "11.0.0.0/8": place("NA", "US"), "12.0.0.0/8": place("EU", "DE")}
    (tmp_path / "places.mmdb").write_bytes(database(records))
    sites = pool_sites(tmp_path, "10.1.0.0/16 ber\n", SITES + PLACES)
    assert sites.orders == (("ber", "par"), ("par", "ber"))
    found = {
        text: sites.networks.match(IPv4Address(text)) for text in ("10.1.2.3", "10.128.2.3", "11.1.2.3", "12.1.2.3")
    }
    assert {text: match.order[0] for text, match in found.items()} == {
        "10.1.2.3": "ber", "10.128.2.3": "par", "11.1.2.3": "par", "12.1.2.3": "ber"
    }  # fmt: skip
    assert [match.scope for match in found.values()] == [16, 9, 8, 8]


def test_mistakes_in_both_files_are_listed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as found:
        load_farm(write(tmp_path, "10.1.0.0/16 bre\n", SITES + PLACES))
    first, second = str(found.value).splitlines()
    assert "lbdns.toml:7: [sites] database: cannot read " in first
    assert first.endswith("places.mmdb: No such file or directory")
    assert "networks:1: 10.1.0.0/16: there is no site 'bre'" in second
