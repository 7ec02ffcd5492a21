"""Tests of a configuration and its files: one list of all errors in one order, for every program that reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lbdns.model.configuration_files import read_files
from lbdns.model.farm_reader import load_farm
from lbdns.server.server_configuration import read_configuration, read_settings
from lbdns_collector.collector_program import load_collector
from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import new_master_key
from tests.answering.farms import HOBBIT
from tests.config import config_files
from tests.config.config_files import pool_table

#: Errors in the order of lines: a zone that does not exist, a member without address, an unknown key
BAD = (
    config_files.ZONE
    + '[[zone]]\nname = "elf"\nfile = "elf.zone"\n'
    + pool_table(zone="hobit", name="first")
    + pool_table("gandlaf", name="second")
    + '[collector]\nscroe = "headroom"\nkey_file = "report.key"\n'
    + '[cookies]\nsecret_file = "cookie.secret"\n'
    + "[explain]\nallwo = []\n"
)


def write(folder: Path, config: str) -> Path:
    (folder / "hobbit.zone").write_text(HOBBIT)
    (folder / "elf.zone").write_text("elf. 1 SOA a b 1 1 1 1 1\nx A 1\n")
    for name in ("report.key", "cookie.secret"):
        (folder / name).write_text("nonsense\n")
        (folder / name).chmod(0o600)
    (folder / "lbdns.toml").write_text(config)
    return folder / "lbdns.toml"


def places(read: Callable[[Path], Any], path: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(path)
    return [line.partition(": ")[0].removeprefix(f"{path.parent}/") for line in caught.value.findings]


@pytest.mark.parametrize("read", [read_files, read_configuration, read_settings])
def test_check_start_and_reload_list_all_errors_in_one_order(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    wrong = ("hobit", "gandlaf", "scroe", "allwo")
    lines = [number for number, line in enumerate(BAD.splitlines(), 1) if any(word in line for word in wrong)]
    expected = [*(f"lbdns.toml:{line}" for line in lines), "elf.zone:2", "report.key:1", "cookie.secret:1"]
    assert len(lines) == len(wrong)
    assert places(read, write(tmp_path, BAD)) == expected


def test_a_collector_lists_them_without_the_files_of_a_dns_server(tmp_path: Path) -> None:
    path = write(tmp_path, BAD)
    assert places(load_collector, path) == [
        place for place in places(read_files, path) if not place.startswith("cookie.secret")
    ]
    assert places(load_farm, path) == [place for place in places(load_collector, path) if "key" not in place]


def test_errors_of_a_valid_configuration_and_a_faulty_zone(tmp_path: Path) -> None:
    path = write(tmp_path, config_files.ZONE + '[[zone]]\nname = "elf"\nfile = "elf.zone"\n' + pool_table("frodo"))
    for read in (read_files, read_configuration, load_collector):
        assert places(read, path) == ["elf.zone:2"]
    read_settings(path)


def test_all_that_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, config_files.ZONE + pool_table("frodo"))
    files = read_files(path)
    assert (files.report_keys, files.cookie_secrets, files.warnings, files.http_warnings) == ((), (), (), ())
    key = new_master_key()
    (tmp_path / "report.key").write_text(key.line())
    (tmp_path / "cookie.secret").write_text("00112233445566778899aabbccddeeff\n")
    (tmp_path / "token").write_text("abcd\n")
    more = (
        '[collector]\nkey_file = "report.key"\n[cookies]\nsecret_file = "cookie.secret"\n[web]\ntoken_file = "token"\n'
    )
    path.write_text(path.read_text() + more)
    for name in ("report.key", "token"):
        (tmp_path / name).chmod(0o644)
    files = read_files(path)
    assert (files.report_keys, files.cookie_secrets) == ((key,), (bytes.fromhex("00112233445566778899aabbccddeeff"),))
    assert ["report.key" in line for line in files.warnings] == [True]
    assert ["token" in line for line in files.http_warnings] == [True]
    assert read_files(path, serves_dns=False).cookie_secrets == ()
