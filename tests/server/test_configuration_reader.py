"""Reading a configuration for ``lbdns serve``: options that override it, and the plane of its table."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from lbdns.answering import native_plane
from lbdns.server.configuration_reader import ServeOptions, new_table, read_configuration, read_settings
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


def test_a_plane_that_is_not_installed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_plane, "AVAILABLE", False)
    assert read_configuration(write_config(tmp_path)).table.plane.name == "python"
    with pytest.raises(LbdnsError, match="make native") as caught:
        read_configuration(write_config(tmp_path, server='plane = "native"'))
    assert caught.value.exit_status == 2


@needs(native=True)
def test_the_native_plane_is_taken_if_it_is_there(tmp_path: Path) -> None:
    assert read_configuration(write_config(tmp_path)).table.plane.name == "native"
    assert read_configuration(write_config(tmp_path, server='plane = "python"')).table.plane.name == "python"


def test_the_table_is_exempt_from_garbage_collection() -> None:
    before = gc.get_freeze_count()
    table = new_table(hobbit())
    assert gc.get_freeze_count() > before
    assert not any(found is table for found in gc.get_objects())
