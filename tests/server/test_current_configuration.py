"""The configuration in force: what a reload may change, and what needs a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.process.apply_configuration import apply
from lbdns.server.configuration_reader import ServeOptions, read_configuration
from lbdns.server.current_configuration import CurrentConfiguration
from lbdns_shared.errors import ConfigError
from tests.server.running import write_config


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
    with pytest.raises(ConfigError, match=rf"{path}: \[server\] {key}: changing it needs a restart"):
        await current.prepare(new)
    assert current.value is before
