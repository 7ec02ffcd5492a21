"""Tests of the plans: the tutorial's machines, each with its own name and address, and the files of a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from lbdns_machines.full_checks import CLONE
from lbdns_machines.machine_files import machine_files, machine_links, write_machine_files
from lbdns_machines.machine_plans import (
    FULL,
    GATEWAY,
    NAME_SERVERS,
    NETWORK,
    QUICK,
    UPGRADES,
    MachinePlan,
    server_package,
)
from lbdns_machines.machine_run import TUTORIAL
from lbdns_packaging.debian_releases import SERVER_RELEASES

each_form = pytest.mark.parametrize("plans", [QUICK, (*FULL, CLONE), UPGRADES], ids=["quick", "full", "upgrades"])


@each_form
def test_names_and_addresses_are_unique_and_in_the_network(plans: Sequence[MachinePlan]) -> None:
    addresses = [plan.address for plan in plans] + [GATEWAY]
    assert len(set(addresses)) == len(addresses)
    assert len({plan.name for plan in plans}) == len(plans)
    assert all(ip_address(address) in ip_network(NETWORK) for address in addresses)
    assert all(len(f"vb-{plan.name}") <= 15 for plan in plans), "names of network interfaces are this long at most"


@each_form
def test_the_tutorial_has_the_same_web_servers(plans: Sequence[MachinePlan]) -> None:
    text = TUTORIAL.read_text()
    for plan in plans:
        if plan.is_web_server and plan != CLONE:
            assert f"--member {plan.name}={plan.address}" in text


def test_the_full_form_has_three_releases_of_debian() -> None:
    assert [plan.root.release for plan in FULL if plan.is_web_server] == ["bullseye", "bookworm", "trixie"]


@pytest.mark.parametrize("plans", [FULL, UPGRADES], ids=["full", "upgrades"])
def test_servers_are_upgraded_on_each_release(plans: Sequence[MachinePlan]) -> None:
    releases = {plan.root.release for plan in plans if plan.name in NAME_SERVERS}
    assert releases == {release.codename for release in SERVER_RELEASES}


@pytest.mark.parametrize(("release", "number"), [("bookworm", 12), ("trixie", 13)])
def test_the_servers_package_is_that_of_the_release(release: str, number: int) -> None:
    plan = replace(QUICK[0], root=replace(QUICK[0].root, release=release))
    assert server_package(plan, "1.2") == f"lbdns_1.2-1~deb{number}_amd64.deb"


def test_a_machine_runs_only_its_own_services() -> None:
    units = machine_links(replace(FULL[0], services=("named",)))
    masked = [name for name, target in units.items() if target == "/dev/null"]
    assert masked == ["etc/systemd/system/apache2.service", "etc/systemd/system/nginx.service"]


def test_the_resolver_is_the_planned_one() -> None:
    assert machine_files(QUICK[2])["etc/resolv.conf"] == "nameserver 192.0.2.53\noptions timeout:2 attempts:3\n"
    assert machine_files(QUICK[0])["etc/resolv.conf"] == ""


def test_files_are_written_and_removed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("root", "etc"):
        (root / name).mkdir(parents=True)
    (root / "etc" / "old").write_text("old")
    (root / "etc" / "resolv.conf").symlink_to("/does/not/exist")
    key = tmp_path / "id_ed25519"
    key.write_text("private")
    key.with_suffix(".pub").write_text("public")
    plan = replace(QUICK[2], files={"etc/old": None, "etc/deep/new": "new"})
    write_machine_files(root, plan, key)
    write_machine_files(root, plan, key)  # as for a clone, whose files exist already
    assert not (root / "etc" / "old").exists()
    assert (root / "etc" / "deep" / "new").read_text() == "new"
    assert (root / "etc" / "hostname").read_text() == "client\n"
    assert "Address=192.0.2.100/24" in (root / "etc" / "systemd" / "network" / "10-host0.network").read_text()
    assert (root / "etc" / "systemd" / "system" / "apache2.service").readlink() == Path("/dev/null")
    assert (root / "root" / ".ssh" / "authorized_keys").read_text() == "public"
    assert (root / "root" / ".ssh" / "id_ed25519").stat().st_mode & 0o777 == 0o600
