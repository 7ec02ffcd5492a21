"""lbdns-scaler with a real HAProxy instead of DNS: servers come, survive its restart, and go; no request fails."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_shared.keys import new_master_key
from lbdns_tools.free_ports import free_ports
from lbdns_tools.scaler.demo.run_demo import remove_servers
from tests.end_to_end.process import python, running
from tests.needs import needs
from tests.tools.scaler.front_ends.balancers import Balancer, haproxy

LIMIT = 180.0  # s: a busy machine starts and stops servers slowly
SCALER = """\
[scaler]
policy = "fixed"
period = "1s"
look = "0.3s"
capacity = 10
state_dir = "{folder}/scaler"
listen = "off"
[policy.fixed]
servers = {servers}
[front_end]
kind = "haproxy"
socket = "{folder}/admin.sock"
config_file = "{folder}/haproxy.cfg"
port = {web}
server_options = "check inter 300ms"
[probe]
port = {web}
[times]
resolvers = "0s"
quiet = "0s"
[provider]
kind = "processes"
folder = "{folder}/servers"
network = "{network}"
port = {web}
collectors = ["127.0.0.1:9"]
key_file = "{folder}/report.key"
"""


class Farm:
    """A scaler and its HAProxy."""

    def __init__(self, folder: Path, balancer: Balancer) -> None:
        self.folder, self.balancer, self.config = folder, balancer, folder / "scaler.toml"
        (self.web,) = free_ports(1)
        self._network = f"127.{random.randrange(20, 250)}.{random.randrange(250)}.0/24"
        key = folder / "report.key"
        key.write_text(new_master_key().line())
        key.chmod(0o600)

    def command(self, servers: int) -> tuple[str, ...]:
        """Return the command of a scaler that wants this many servers."""
        text = SCALER.format(folder=self.folder, servers=servers, web=self.web, network=self._network)
        self.config.write_text(text)
        return python("lbdns_tools.scaler", "run", "-c", str(self.config))

    def listed(self) -> list[str]:
        """Return the servers in HAProxy's configuration file to which clients are sent."""
        lines = (self.folder / "haproxy.cfg").read_text().splitlines()
        return [line.split()[1] for line in lines if line.split()[:1] == ["server"] and "disabled" not in line]

    def machines(self) -> set[str]:
        return {path.name for path in (self.folder / "servers").glob("web-*")}


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    with haproxy(tmp_path) as balancer:
        found = Farm(tmp_path, balancer)
        try:
            yield found
        finally:
            remove_servers(found.config)


@needs(programs=("haproxy",))
def test_a_farm_behind_haproxy_needs_no_dns(farm: Farm) -> None:
    with running(*farm.command(servers=2)) as scaler:
        scaler.until(lambda: sorted(farm.listed()) == ["web-1", "web-2"], "two servers", LIMIT)
        assert {farm.balancer.get()[0] for _ in range(10)} == {200}
        farm.balancer.restart()
        assert {farm.balancer.get()[0] for _ in range(10)} == {200}
    with running(*farm.command(servers=1)) as scaler:
        scaler.until(lambda: farm.balancer.get()[0] == 200 and len(farm.listed()) == 1, "one is drained", LIMIT)
        scaler.until(
            lambda: farm.balancer.get()[0] == 200 and farm.machines() == set(farm.listed()), "it is gone", LIMIT
        )
    assert {farm.balancer.get()[0] for _ in range(10)} == {200}
