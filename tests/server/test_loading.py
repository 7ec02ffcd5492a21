"""A configuration as ``lbdns serve`` loads it: what the command line overrules, and which plane its table is on."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from lbdns.endpoint import Endpoint
from lbdns.errors import ConfigError, LbdnsError
from lbdns.server import native
from lbdns.server.loading import Options, load, load_settings, new_table
from tests.answering.farms import hobbit
from tests.needs import needs
from tests.server.running import write_config


def test_the_command_line_overrules(tmp_path: Path) -> None:
    config = write_config(tmp_path, server="workers = 3")
    assert load_settings(config).server.workers == 3
    options = Options(listen=(Endpoint("127.0.0.5", 5300),), workers=2)
    for server in (load_settings(config, options).server, load(config, options).farm.config.server):
        assert (server.workers, server.listen) == (2, (Endpoint("127.0.0.5", 5300),))


def test_secrets_are_those_of_the_file_or_none(tmp_path: Path) -> None:
    assert load(write_config(tmp_path)).secrets == ()
    (tmp_path / "cookie.secret").write_text("00112233445566778899aabbccddeeff\n")
    config = write_config(tmp_path, server='[cookies]\nsecret_file = "cookie.secret"')
    assert load(config).secrets == (bytes.fromhex("00112233445566778899aabbccddeeff"),)
    (tmp_path / "cookie.secret").unlink()
    with pytest.raises(ConfigError, match=r"cookie\.secret"):
        load(config)


def test_a_plane_that_is_not_there_can_not_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "AVAILABLE", False)
    assert load(write_config(tmp_path)).table.plane.name == "python"
    with pytest.raises(LbdnsError, match="make native") as caught:
        load(write_config(tmp_path, server='plane = "native"'))
    assert caught.value.exit_status == 2


@needs(native=True)
def test_the_native_plane_is_taken_if_it_is_there(tmp_path: Path) -> None:
    assert load(write_config(tmp_path)).table.plane.name == "native"
    assert load(write_config(tmp_path, server='plane = "python"')).table.plane.name == "python"


def test_what_is_loaded_is_no_work_for_the_garbage_collector() -> None:
    before = gc.get_freeze_count()
    table = new_table(hobbit())
    assert gc.get_freeze_count() > before
    assert not any(found is table for found in gc.get_objects())
