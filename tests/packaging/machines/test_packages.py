"""Tests of the packages for machines: a newer version, wheels for Debian's glibc, and records for the parent zone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lbdns_machines.debian_12_packages import runs_with_glibc, sources_digest
from lbdns_machines.full_checks import delegation_records
from lbdns_machines.machine import MachineError
from lbdns_machines.newer_package import make_newer_package, newer_control
from lbdns_packaging.root_file_systems import PackagingError
from tests.needs import needs, program

CONTROL = "Package: lbdns\nVersion: 0.1.0-1~deb12\nArchitecture: amd64\nMaintainer: a <a@b>\nDescription: c\n"


def test_a_newer_control_file_differs_in_the_version_alone() -> None:
    assert newer_control(CONTROL) == CONTROL.replace("0.1.0-1", "0.1.0+newer-1")


def test_a_control_file_without_a_version_is_an_error() -> None:
    with pytest.raises(PackagingError, match="0 lines with a version"):
        newer_control("Package: lbdns\n")


@needs(programs=("dpkg-deb",))
def test_a_newer_package_has_a_newer_program(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    module = tree / "usr/lib/lbdns/lib/python3.11/site-packages/lbdns_shared/__init__.py"
    module.parent.mkdir(parents=True)
    module.write_text('"""Text."""\n\n__version__ = "0.1.0"\n')
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN" / "control").write_text(CONTROL)
    package = tmp_path / "lbdns_0.1.0-1~deb12_amd64.deb"
    deb = program("dpkg-deb")
    subprocess.run([deb, "--build", "-Znone", "--root-owner-group", tree, package], check=True, capture_output=True)
    newer, version = make_newer_package(package, tmp_path / "newer")
    assert (newer.name, version) == ("lbdns_0.1.0+newer-1~deb12_amd64.deb", "0.1.0+newer")
    field = subprocess.run([deb, "--field", newer, "Version"], check=True, capture_output=True, text=True).stdout
    assert field == "0.1.0+newer-1~deb12\n"
    subprocess.run(["dpkg", "--compare-versions", field.strip(), "gt", "0.1.0-1~deb12"], check=True)


@pytest.mark.parametrize(
    ("wheel", "runs"),
    [
        ("lbdns_native-0.1.0-cp311-abi3-manylinux_2_34_x86_64.whl", True),
        ("lbdns_native-0.1.0-cp311-abi3-manylinux_2_36_x86_64.whl", True),
        ("lbdns_native-0.1.0-cp311-abi3-manylinux_2_39_x86_64.whl", False),
        ("lbdns_native-0.1.0-cp311-abi3-linux_x86_64.whl", False),
    ],
)
def test_a_wheel_runs_with_the_glibc_that_it_names(wheel: str, runs: bool) -> None:
    assert runs_with_glibc(wheel, 36) is runs


def test_the_digest_of_the_sources_is_stable() -> None:
    assert sources_digest() == sources_digest()


def test_the_records_of_init_go_into_the_parent_zone() -> None:
    records = ["example.net.  NS  ns.example.net.", "ns.example.net.  A  192.0.2.53"]
    printed = "written: a\n5. In the parent zone:\n" + "".join(f"     {record}\n" for record in records)
    assert delegation_records(printed) == records
    with pytest.raises(MachineError, match="printed 0 records"):
        delegation_records("nothing\n")
