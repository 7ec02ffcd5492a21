"""Tests of the configuration of ``lbdns serve``: options that override it, the answer table, and restarts."""

from __future__ import annotations

import contextlib
import gc
from pathlib import Path

import pytest

from lbdns.process.apply_configuration import apply
from lbdns.server.server_configuration import (
    CurrentConfiguration,
    ServeOptions,
    new_table,
    read_configuration,
    read_settings,
)
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError, LbdnsError
from tests.answering.farms import hobbit
from tests.needs import needs
from tests.server.running import write_config


def test_the_command_line_overrules(tmp_path: Path) -> None:
    config = write_config(tmp_path, server="workers = 3")
    assert read_settings(config).server.workers == 3
    options = ServeOptions(listen=(Endpoint("127.0.0.5", 5300),), workers=2)
    for server in (read_settings(config, options).server, read_configuration(config, options).farm.config.server):
        assert (server.workers, server.listen) == (2, (Endpoint("127.0.0.5", 5300),))


def test_secrets_are_those_of_the_file_or_none(tmp_path: Path) -> None:
    assert read_configuration(write_config(tmp_path)).secrets == ()
    (tmp_path / "cookie.secret").write_text("00112233445566778899aabbccddeeff\n")
    config = write_config(tmp_path, server='[cookies]\nsecret_file = "cookie.secret"')
    assert read_configuration(config).secrets == (bytes.fromhex("00112233445566778899aabbccddeeff"),)
    (tmp_path / "cookie.secret").unlink()
    with pytest.raises(ConfigError, match=r"cookie\.secret"):
        read_configuration(config)


def test_a_secret_that_other_users_can_read_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = tmp_path / "cookie.secret"
    secret.write_text("00112233445566778899aabbccddeeff\n")
    config = write_config(tmp_path, server='[cookies]\nsecret_file = "cookie.secret"')
    for mode in (0o600, 0o644):
        secret.chmod(mode)
        caplog.clear()
        read_configuration(config)
        assert ["lets other users read it" in r.getMessage() for r in caplog.records] == [True] * (mode == 0o644)


def test_a_plane_that_is_not_installed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns.answering.plane.AVAILABLE", False)
    assert read_configuration(write_config(tmp_path)).table.plane.name == "python"
    with pytest.raises(LbdnsError, match="make native") as caught:
        read_configuration(write_config(tmp_path, server='plane = "native"'))
    assert caught.value.exit_status == 2


def test_state_of_a_newer_version_is_an_error(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    record = tmp_path / "state" / "state-format"
    record.parent.mkdir()
    record.write_text('{"format": 99, "program": "9.8.7"}')
    with pytest.raises(ConfigError, match=r"state-format: lbdns 9\.8\.7 has written"):
        read_configuration(config)


@needs(native=True)
def test_the_native_plane_is_taken_if_it_is_there(tmp_path: Path) -> None:
    assert read_configuration(write_config(tmp_path)).table.plane.name == "native"
    assert read_configuration(write_config(tmp_path, server='plane = "python"')).table.plane.name == "python"


def test_the_table_is_exempt_from_garbage_collection() -> None:
    before = gc.get_freeze_count()
    table = new_table(hobbit())
    assert gc.get_freeze_count() > before
    assert not any(found is table for found in gc.get_objects())


NAMES = 2000
NAMED = "".join(f"host{number} A 192.0.2.1\n" for number in range(NAMES))


@pytest.mark.parametrize("end", ["", "oops A 1.2.3\n"], ids=["read", "refused"])
def test_a_configuration_that_is_dropped_leaves_nothing_behind(tmp_path: Path, end: str) -> None:
    """Garbage in reference cycles would be frozen with the next table, and never be freed."""
    config = write_config(tmp_path)
    zone = tmp_path / "hobbit.zone"
    zone.write_text(zone.read_text() + NAMED + end)

    def read() -> None:
        with pytest.raises(ConfigError) if end else contextlib.nullcontext():
            read_configuration(config)

    read()  # imports and caches
    gc.collect()
    gc.disable()
    try:
        new_table(hobbit())
        before = gc.get_freeze_count()
        read()
        new_table(hobbit())
        assert gc.get_freeze_count() - before < NAMES / 2
    finally:
        gc.enable()


async def test_a_change_holds_once_it_is_applied(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    current = CurrentConfiguration(path, read_configuration(path))
    new = read_configuration(write_config(tmp_path, pool="ttl = 5"))
    change = await current.prepare(new)
    assert current.farm.pools[0].config.ttl == 0
    await change.rollback()
    assert current.farm.pools[0].config.ttl == 0
    await apply([current], new)
    assert current.value is new
    assert current.farm.pools[0].config.ttl == 5


@pytest.mark.parametrize(
    ("options", "server", "key"),
    [
        (ServeOptions(workers=3), "", "workers"),
        (ServeOptions(), 'user = "root"', "user"),
        (ServeOptions(), 'plane = "python"', "plane"),
    ],
)
async def test_some_changes_need_a_restart(tmp_path: Path, options: ServeOptions, server: str, key: str) -> None:
    path = write_config(tmp_path)
    before = read_configuration(path)
    current = CurrentConfiguration(path, before)
    new = read_configuration(write_config(tmp_path, server=server), options)
    with pytest.raises(ConfigError, match=rf"{path}: \[server\] {key}: a change requires a restart"):
        await current.prepare(new)
    assert current.value is before
