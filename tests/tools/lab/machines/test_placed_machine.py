"""Checks that commands run in a machine's namespace and control group, with the machine's resolv.conf."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost, machines
from lbdns_tools.lab.machines import network_namespaces
from lbdns_tools.lab.machines.control_groups import ControlGroup, make_group
from lbdns_tools.lab.machines.leftover_cleanup import new_id
from lbdns_tools.lab.machines.placed_machine import ETC, NAMESPACES, PlacedMachine
from tests.end_to_end.process import eventually
from tests.needs import needs

pytestmark = needs(programs=("ip", "nsenter", "unshare"), root=True, namespaces=True, cpu_groups=True)


@pytest.fixture(scope="module")
def place() -> Iterator[PlacedMachine]:
    id = new_id()
    hub, _, web, *_ = machines(LabFarm((WebHost("gandalf", 0.4),)))
    top = f"lbdns-lab-test/{os.getpid()}-place"
    group = make_group(f"{top}/gandalf")
    try:
        network_namespaces.build(id, (hub, web))
        yield PlacedMachine(web, network_namespaces.namespace_of(id, web.name), group)
    finally:
        lab = ControlGroup(top, group.hierarchies)
        lab.kill()
        network_namespaces.remove(id)
        lab.remove()


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def test_in_its_namespace(place: PlacedMachine) -> None:
    inside = run(*place.command("readlink", "/proc/self/ns/net"))
    assert inside == f"net:[{(NAMESPACES / place.namespace).stat().st_ino}]\n"
    assert inside.strip() != os.readlink("/proc/self/ns/net")


def test_in_its_group(place: PlacedMachine) -> None:
    assert f":cpu:/{place.group.name}\n" in run(*place.command("cat", "/proc/self/cgroup"))


def test_in_another_group(place: PlacedMachine) -> None:
    agents = make_group(f"{place.group.name}-agent")
    assert f":cpu:/{agents.name}\n" in run(*place.command("cat", "/proc/self/cgroup", group=agents))
    agents.remove()


def test_control_groups_can_be_read_inside(place: PlacedMachine) -> None:
    with subprocess.Popen(
        place.command("sh", "-c", f"echo $$; cat {place.group.cpu_directory}/cgroup.procs; read line"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        assert program.stdout is not None
        own, listed = (program.stdout.readline().strip() for _ in range(2))
        assert own == listed == str(program.pid)  # one process from the beginning
        program.communicate("\n")


def test_without_a_command_it_is_the_beginning_of_one(place: PlacedMachine) -> None:
    words = ("printf", "%s|", "a b", "$HOME", "'", "--", "")
    assert run(*place.command(), *words) == run(*place.command(*words)) == "a b|$HOME|'|--||"


def test_exit_status(place: PlacedMachine) -> None:
    assert subprocess.run(place.command("sh", "-c", "exit 5"), check=False).returncode == 5


def test_resolv_conf(place: PlacedMachine) -> None:
    ours = Path("/etc/resolv.conf").read_text()
    place.resolv_conf("nameserver 198.18.0.53", "options timeout:1")
    show = place.command("cat", "/etc/resolv.conf")
    assert run(*show) == "nameserver 198.18.0.53\noptions timeout:1\n"
    code = "echo up; read line; cat /etc/resolv.conf"
    with subprocess.Popen(
        place.command("sh", "-c", code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "up\n"
        place.resolv_conf("nameserver 198.18.3.1")
        assert program.communicate("\n")[0] == "nameserver 198.18.3.1\n"
    assert Path("/etc/resolv.conf").read_text() == ours
    assert (ETC / place.namespace / "resolv.conf").is_file()


def test_does_not_run_elsewhere_when_the_namespace_is_gone(place: PlacedMachine) -> None:
    gone = PlacedMachine(place.machine, f"{place.namespace}-gone", place.group)
    done = subprocess.run(gone.command("echo", "ran"), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode != 0
    assert "ran" not in done.stdout


def test_killed_as_a_group(place: PlacedMachine) -> None:
    started = [subprocess.Popen(place.command("sleep", "1000")) for _ in range(2)]
    eventually(lambda: place.group.pids() == {program.pid for program in started}, "both are in the group")
    place.group.kill()
    assert [program.wait(60) for program in started] == [-9, -9]
