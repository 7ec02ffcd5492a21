"""Tests of a new farm: its texts are valid whatever names and addresses it has, and errors are found before writing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.model.configuration_files import read_files
from lbdns.setup.new_farm import (
    KEY_FILE,
    NewFarm,
    NewMember,
    check_farm,
    collector_option,
    configuration_text,
    delegation,
    parse_address,
    parse_member,
    parse_zone,
    zone_text,
)
from lbdns_shared.keys import new_master_key

FARM = NewFarm(
    "example.net",
    "www",
    "192.0.2.53",
    (NewMember("frodo", ("192.0.2.2", "2001:db8::2")), NewMember("b", ("192.0.2.3",))),
)


def read_back(farm: NewFarm, folder: Path) -> object:
    (folder / farm.zone_file).write_text(zone_text(farm))
    (folder / "lbdns.toml").write_text(configuration_text(farm))
    (folder / KEY_FILE).touch(0o600)
    (folder / KEY_FILE).write_text(new_master_key().line())
    return read_files(folder / "lbdns.toml").farm


def test_the_texts_are_a_valid_farm(tmp_path: Path) -> None:
    files = read_files(tmp_path / "lbdns.toml") if read_back(FARM, tmp_path) else None
    assert files is not None
    (pool,) = files.farm.pools
    assert [(member.name, member.addresses) for member in pool.members] == [
        ("frodo", ("192.0.2.2", "2001:db8::2")),
        ("b", ("192.0.2.3",)),
    ]
    assert pool.config.names["www"] == "best"
    assert files.farm.config.server.user == ""
    assert files.warnings == ()


LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
ADDRESS = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)


@settings(max_examples=50)
@given(
    st.lists(LABEL, min_size=1, max_size=3).map(".".join),
    LABEL,
    ADDRESS,
    st.lists(st.tuples(LABEL, st.lists(ADDRESS, min_size=1, max_size=3)), min_size=1, max_size=5),
)
def test_whatever_passes_the_checks_is_a_valid_farm(
    zone: str, name: str, address: str, members: list[tuple[str, list[str]]]
) -> None:
    try:
        parsed = tuple(parse_member(f"{host}={','.join(addresses)}") for host, addresses in members)
        farm = NewFarm(parse_zone(zone), parse_zone(name), parse_address(address), parsed)
        check_farm(farm)
    except ValueError:
        return
    with TemporaryDirectory() as folder:
        assert read_back(farm, Path(folder))


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_zone, "exa mple", "is not a domain name; write a name such as example.net"),
        (parse_zone, "", "is not a domain name"),
        (parse_address, "ns.example.net", "is not an IP address; write an address such as"),
        (parse_address, "0.0.0.0", "is not the address of a host"),
        (parse_member, "frodo", "write a web server as NAME=ADDRESS, such as frodo=192.0.2.2"),
        (parse_member, "frodo=", "write a web server as NAME=ADDRESS"),
        (parse_member, "fro do=192.0.2.2", "is not a host name; write only its name within the zone"),
        (parse_member, "frodo=192.0.2", "is not an IP address"),
    ],
)
def test_wrong_texts(parse: object, text: str, message: str) -> None:
    assert callable(parse)
    with pytest.raises(ValueError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"members": ()}, "a pool needs at least one web server"),
        ({"clients_name": "ns"}, "the name 'ns' is already in use"),
        ({"clients_name": "b"}, "the web server's name 'b' is already in use"),
        ({"members": (NewMember("weighted", ("192.0.2.2",)),)}, "'weighted' is already in use"),
        ({"members": (NewMember("a", ("192.0.2.2",)), NewMember("b", ("192.0.2.2",)))}, "192.0.2.2 appears twice"),
        ({"members": (NewMember("a", ("192.0.2.2",)), NewMember("a", ("192.0.2.3",)))}, "a appears twice"),
    ],
)
def test_what_cannot_be_a_farm(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_farm(replace(FARM, **changes))


def test_what_others_must_know() -> None:
    assert delegation(FARM) == ("example.net.  NS  ns.example.net.", "ns.example.net.  A  192.0.2.53")
    assert collector_option(FARM) == "--collector 192.0.2.53"
    six = replace(FARM, address="2001:db8::53")
    assert delegation(six)[1] == "ns.example.net.  AAAA  2001:db8::53"
    assert collector_option(six) == "--collector [2001:db8::53]:7777"
