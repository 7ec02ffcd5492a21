"""Tests of the packages for machines: wheels for Debian's glibc, and records for the parent zone."""

from __future__ import annotations

import pytest

from lbdns_machines.debian_12_packages import runs_with_glibc, sources_digest
from lbdns_machines.full_checks import delegation_records
from lbdns_machines.machine import MachineError


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
