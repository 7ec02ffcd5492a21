"""Tests of the database of clients' places, with networks that precede it, and of its errors."""

from __future__ import annotations

import ipaddress
import logging
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.config.places_setting import PlacesConfig
from lbdns.model.client_places import build_places
from lbdns.model.place_database import PlaceDatabase, open_place_database
from lbdns.model.site_networks import UNKNOWN, SiteMatch, SiteOrder, parse_site_networks
from lbdns_shared.errors import ConfigError
from tests.mmdb_files import BUILT, database, place

SITES = ("ber", "nyc", "par")
PLACES = PlacesConfig(continents=(("NA", ("nyc",)),), countries=(("FR", ("par", "ber")), ("DE", ("ber", "par"))))
RECORDS = {
    "10.0.0.0/8": place("EU", "FR"),
    "11.1.0.0/16": place("NA", "US"),
    "11.2.3.0/25": place("EU", "DE"),
    "11.2.3.128/25": place("EU", "FR"),
    "12.0.0.0/8": place("AS", "JP"),
    "2001:db8::/32": place("EU", "FR"),
    "2001:db9:0:8000::/49": place("NA", "US"),
}
TABLE = "10.1.0.0/16 nyc\n11.2.3.64/26 ber\n"
Open = Callable[..., PlaceDatabase]


@pytest.fixture(name="opened")
def _opened(tmp_path: Path) -> Open:
    def opened(records: dict[str, Any] = RECORDS, places: PlacesConfig = PLACES, **more: Any) -> PlaceDatabase:
        path = tmp_path / "places.mmdb"
        path.write_bytes(database(records, **more))
        return open_place_database(path, build_places(places))

    return opened


@pytest.mark.parametrize(
    ("address", "order", "scope"),
    [
        ("10.2.3.4", ("par", "ber"), 8),
        ("11.1.2.3", ("nyc",), 16),
        ("11.2.3.4", ("ber", "par"), 25),
        ("11.2.3.200", ("par", "ber"), 25),
        ("11.2.4.1", UNKNOWN, 22),
        ("12.0.0.1", UNKNOWN, 8),
        ("200.0.0.1", UNKNOWN, 1),
        ("2001:db8::1", ("par", "ber"), 32),
        ("2001:db9:0:8000::1", ("nyc",), 49),
        ("2001:db9::1", UNKNOWN, 49),
    ],
)
def test_the_scope_is_the_prefix_of_the_record(opened: Open, address: str, order: SiteOrder, scope: int) -> None:
    found = opened()
    for _ in range(2):  # the second time from the cache
        assert found.match(ipaddress.ip_address(address)) == SiteMatch(order, scope)


def test_a_block_is_looked_up_once(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    found, looked_up = opened(), []
    real = found._records._reader

    class Counted:
        def get_with_prefix_len(self, address: Any) -> Any:
            looked_up.append(str(address))
            return real.get_with_prefix_len(address)

    monkeypatch.setattr(found._records, "_reader", Counted())
    for last in range(256):
        found.match(ipaddress.ip_address(f"10.9.8.{last}"))
        found.match(ipaddress.ip_address(f"2001:db8:1::{last:x}"))
    assert looked_up == ["10.9.8.0", "2001:db8:1::"]


@pytest.mark.parametrize(
    ("address", "order", "scope"),
    [
        ("10.1.2.3", ("nyc",), 16),
        ("10.2.3.4", ("par", "ber"), 15),  # 10.0.0.0/14 contains a network of the table
        ("10.0.0.1", ("par", "ber"), 16),
        ("11.2.3.70", ("ber",), 26),
        ("11.2.3.4", ("ber", "par"), 26),
        ("12.0.0.1", SITES, 8),
        ("200.0.0.1", SITES, 1),
        ("2001:db8::1", ("par", "ber"), 32),
    ],
)
def test_networks_precede_places(opened: Open, address: str, order: SiteOrder, scope: int) -> None:
    networks = parse_site_networks(TABLE, "nets", SITES, SITES, opened())
    assert networks.match(ipaddress.ip_address(address)) == SiteMatch(order, scope)


def test_a_pool_has_the_orders_of_its_own_sites(opened: Open) -> None:
    networks = parse_site_networks(TABLE, "nets", SITES, SITES, opened()).for_sites(("par", "nyc"))
    assert networks.orders == (("nyc", "par"), ("par", "nyc"))
    assert networks.match(ipaddress.ip_address("11.2.3.4")) == SiteMatch(("par", "nyc"), 26)
    assert networks.match(ipaddress.ip_address("200.0.0.1")) == SiteMatch(("nyc", "par"), 1)


def test_a_database_of_ipv4_knows_no_ipv6_clients(opened: Open) -> None:
    found = opened({"10.0.0.0/8": place("EU", "FR")}, ip_version=4)
    assert found.match(ipaddress.ip_address("10.0.0.1")) == SiteMatch(("par", "ber"), 8)
    assert found.match(ipaddress.ip_address("2001:db8::1")) == SiteMatch(UNKNOWN, 0)


NETWORKS = st.builds(lambda high, length: f"{high << 26 >> (32 - length) << (32 - length)}/{length}",
                     st.integers(0, 63), st.integers(1, 6)).map(
    lambda text: str(ipaddress.ip_network((int(text.split("/")[0]), int(text.split("/")[1]))))
)  # fmt: skip


@given(st.dictionaries(NETWORKS, st.sampled_from(SITES), max_size=6), st.integers(0, (1 << 32) - 1))
def test_all_clients_in_the_scope_have_the_same_order(
    tmp_path_factory: Any, table: dict[str, str], number: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "property.mmdb"
    path.write_bytes(database(RECORDS))
    places = open_place_database(path, build_places(PLACES))
    networks = parse_site_networks("".join(f"{n} {s}\n" for n, s in table.items()), "nets", SITES, SITES, places)
    match = networks.match(ipaddress.IPv4Address(number))
    scope = ipaddress.ip_network((number >> 32 - match.scope << 32 - match.scope if match.scope else 0, match.scope))
    known = [ipaddress.ip_network(text) for text in (*table, *RECORDS)]
    edges = [edge for net in known if net.version == 4 for edge in (net.network_address, net.broadcast_address)]
    within = [edge for edge in edges if edge in scope] + [scope.network_address, scope.broadcast_address]
    assert {networks.match(address).order for address in within} == {match.order}


def test_the_file_may_be_overwritten(opened: Open, tmp_path: Path) -> None:
    found = opened()
    (tmp_path / "places.mmdb").write_bytes(b"")
    assert found.match(ipaddress.ip_address("10.2.3.4")).order == ("par", "ber")


def test_a_worker_process_gets_the_whole_database(opened: Open, tmp_path: Path) -> None:
    found = opened()
    (tmp_path / "places.mmdb").unlink()
    other = pickle.loads(pickle.dumps(found))
    for text in ("10.2.3.4", "11.2.3.200", "12.0.0.1", "2001:db8::1"):
        assert other.match(ipaddress.ip_address(text)) == found.match(ipaddress.ip_address(text))
    assert other.orders == found.orders


def test_damaged_data_is_logged_once(opened: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened()
    path = tmp_path / "places.mmdb"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"iso_code", b"\xff" * 8))
    found = open_place_database(path, build_places(PLACES))
    with caplog.at_level(logging.WARNING, "lbdns.sites"):
        assert found.match(ipaddress.ip_address("10.2.3.4")) == SiteMatch(UNKNOWN, 32)
        assert found.match(ipaddress.ip_address("11.1.3.4")) == SiteMatch(UNKNOWN, 32)
    assert len(caplog.records) == 1
    assert "10.2.3.0" in caplog.text


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, r"cannot read .*places.mmdb: No such file or directory"),
        (b"", r"places.mmdb is not a MaxMind database"),
        (b"networks\n" * 100, r"places.mmdb is not a MaxMind database"),
    ],
)
def test_unreadable_files(tmp_path: Path, content: bytes | None, error: str) -> None:
    path = tmp_path / "places.mmdb"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=error):
        open_place_database(path, build_places(PLACES))


def test_damaged_metadata(tmp_path: Path) -> None:
    path, content = tmp_path / "places.mmdb", database(RECORDS)
    begin = content.rindex(b"MaxMind.com")
    built = BUILT.to_bytes(4, "big")
    damaged = [content[:at] + b"\xff" + content[at + 1 :] for at in range(begin, len(content))]
    damaged += [content[:at] for at in range(begin, len(content), 3)]
    damaged += [content.replace(b"\x04\x02" + built, bytes((size, 2)) + b"\xff" * size) for size in (5, 8)]
    errors = set()
    for some in damaged:
        path.write_bytes(some)
        try:
            open_place_database(path, build_places(PLACES))
        except ConfigError as error:
            errors.add(str(error))
    assert errors == {f"{path} is not a MaxMind database"}


@pytest.mark.parametrize(
    ("places", "lacks"),
    [
        (PlacesConfig(subdivisions=(("US-CA", ("nyc",)),)), "no subdivisions"),
        (PlacesConfig(coordinates=(("ber", (52.5, 13.4)),)), "no coordinates"),
    ],
)
def test_a_database_of_countries_lacks_smaller_places(opened: Open, places: PlacesConfig, lacks: str) -> None:
    with pytest.raises(ConfigError, match=f"of the type GeoLite2-Country, which contains {lacks}; use a City database"):
        opened(places=places, kind="GeoLite2-Country")
    assert opened(kind="GeoLite2-Country").kind == "GeoLite2-Country"


def test_a_database_needs_a_package(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "maxminddb", None)
    with pytest.raises(ConfigError, match=r"requires the package maxminddb; run pip install 'lbdns\[geo\]'"):
        opened()
