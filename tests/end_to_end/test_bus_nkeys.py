"""A bus whose users have nkeys: real programs, with the files that ``lbdns keygen --nkey`` writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lbdns.commands.keygen import nkey_lines
from lbdns_shared.nkey import Nkey, read_nkey
from lbdns_tools.nats_servers import COLLECTOR
from tests.end_to_end.harness import Site, new_site, serving
from tests.end_to_end.nats_bus import Bus, new_bus, serving_bus
from tests.end_to_end.process import Program, python, running
from tests.needs import needs

pytestmark = needs(programs=("nats-server",))

HOST = "gandalf"


def new_nkey(folder: Path, user: str) -> Nkey:
    """Write the file with a user's new nkey, and return the nkey."""
    path = folder / f"{user}.nk"
    path.touch(mode=0o600)
    path.write_text(nkey_lines())
    return read_nkey(path, "nkey file", "")[0]


def keyed_bus(folder: Path, tls: bool = False) -> Bus:
    """Return a bus that accepts only the nkeys of the collector and of one host."""
    bus = replace(new_bus(folder, HOST, tls=tls), nkeys={user: new_nkey(folder, user) for user in (COLLECTOR, HOST)})
    bus.write(HOST)
    return bus


def written(folder: Path, bus: Bus, user: str = COLLECTOR) -> Site:
    site = new_site(folder, {HOST: ["127.0.0.18"]})
    site.write()
    with site.config.open("a") as file:
        file.write(f'{bus.section(COLLECTOR)}nkey_file = "{folder / user}.nk"\n')
    return site


def agent(site: Site, bus: Bus, folder: Path, user: str = HOST) -> tuple[str, ...]:
    """Return the command of an agent that measures nothing that a busy machine may disturb."""
    authority = ("--bus-tls-ca", str(bus.certificate)) if bus.certificate else ()
    own = ("--name", HOST, "--pool", "web", "--key-file", str(site.agent_key_file(HOST)))
    quiet = ("--gateway", "off", "--server-status", "off", "--alarm", "off")
    return python("lbdns_agent", *own, *quiet, "--bus", bus.url(HOST), "--bus-nkey", f"{folder / user}.nk", *authority)


def has_no_seed(program: Program, folder: Path) -> bool:
    seeds = [path.read_text().split()[-1] for path in folder.glob("*.nk")]
    return bool(seeds) and not any(seed in program.errors for seed in seeds)


@pytest.mark.parametrize("tls", [False, True])
def test_reports_arrive(tmp_path: Path, tls: bool) -> None:
    bus = keyed_bus(tmp_path, tls)
    site = written(tmp_path, bus)
    with serving_bus(bus), serving(site) as server:
        server.until(lambda: site.metric("lbdns_bus_connected") == 1, "the collector is connected")
        with running(*agent(site, bus, tmp_path)) as reporter:
            reporter.until(lambda: site.metric("lbdns_bus_reports_total", result="accepted") > 0, "reports arrive")
            assert has_no_seed(reporter, tmp_path)
        assert has_no_seed(server, tmp_path)


def test_strangers_are_refused(tmp_path: Path) -> None:
    bus = keyed_bus(tmp_path)
    new_nkey(tmp_path, "stranger")
    site = written(tmp_path, bus, "stranger")
    with serving_bus(bus), serving(site) as server:
        what = "the server refuses the credentials"
        server.until(lambda: what in site.status()["reports"]["bus"]["problem"], "the collector shows the reason")
        with running(*agent(site, bus, tmp_path, "stranger")) as reporter:
            reporter.until(lambda: what in reporter.errors, "the agent logs the reason")
            assert "check the user and the password, token or nkey" in reporter.errors
            assert has_no_seed(reporter, tmp_path)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4", "the key is a public key"),
        ("SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3", "the key's checksum is wrong"),
    ],
)
def test_an_unusable_file_ends_the_agent(tmp_path: Path, text: str, fault: str) -> None:
    bus = keyed_bus(tmp_path)
    site = written(tmp_path, bus)
    (tmp_path / f"{HOST}.nk").write_text(text)
    with running(*agent(site, bus, tmp_path)) as reporter:
        assert reporter.wait() == 2
        assert f"{HOST}.nk: nkey file: {fault}" in reporter.errors
