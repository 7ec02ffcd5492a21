"""Checks that the demo's files form a valid farm and are private."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lbdns.demo.farm_files import DemoPlan, key_file, write
from lbdns.model.configuration_files import read_files
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.keys import read_key_file


@pytest.mark.parametrize("ipv6", [True, False])
def test_they_are_good_without_a_warning(tmp_path: Path, ipv6: bool) -> None:
    plan = DemoPlan(dns_port=1, report_port=2, http_port=3, web_port=4, ipv6=ipv6)
    checked = read_files(write(plan, tmp_path))
    assert (checked.warnings, checked.http_warnings, checked.farm.warnings) == ((), (), ())
    config = checked.farm.config
    assert config.server.listen == (Endpoint("127.0.0.1", 1),)
    assert config.collector.listen == (Endpoint("127.0.0.1", 2),)
    assert config.web.listen == Endpoint("127.0.0.1", 3)
    assert config.server.control.is_relative_to(tmp_path)
    assert config.server.state_dir.is_relative_to(tmp_path)
    (pool,) = checked.farm.pools
    assert {member.name: member.addresses for member in pool.members} == {
        "bilbo": ("127.0.0.16",),
        "frodo": ("127.0.0.17",),
        "gandalf": ("127.0.0.18", "::1") if ipv6 else ("127.0.0.18",),
    }
    assert set(checked.farm.zones) == {b"\6hobbit\0", b"\x010\x010\x03127\x07in-addr\x04arpa\0"}


def test_keys_fit_together_are_fresh_and_private(tmp_path: Path) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
        write(DemoPlan(), folder)
    masters = [read_key_file(folder / "report.key")[0].masters[0] for folder in folders]
    assert masters[0] != masters[1]
    for host in DemoPlan().hosts:
        keys, warnings = read_key_file(key_file(folders[0], host))
        assert warnings == []
        assert keys.masters == ()
        assert keys.agents == (masters[0].agent_key(host.name),)
        assert stat.S_IMODE(key_file(folders[0], host).stat().st_mode) == 0o600


def test_web_servers_listen_on_their_addresses() -> None:
    plan = DemoPlan(web_port=8080)
    assert [str(e) for host in plan.hosts for e in plan.web_endpoints(host)] == [
        "127.0.0.16:8080", "127.0.0.17:8080", "127.0.0.18:8080", "[::1]:8080",
    ]  # fmt: skip
