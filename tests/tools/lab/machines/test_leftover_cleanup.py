"""Checks that everything a lab leaves behind is found and removed, no matter when the lab's owner was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.machines import network_namespaces
from lbdns_tools.lab.machines.control_groups import TOP, ControlGroup, find_hierarchies
from lbdns_tools.lab.machines.leftover_cleanup import LabTraces, clean, labs, new_id, record
from lbdns_tools.lab.machines.placed_machine import ETC, NAMESPACES
from tests.end_to_end.process import eventually
from tests.needs import needs

pytestmark = needs(programs=("ip", "nsenter", "unshare"), root=True, namespaces=True, cpu_groups=True)

# A lab up to one of these moments; then it says so and waits to be killed
NOTED, HALF, WHOLE = "noted", "half", "whole"
OWNER = """
import subprocess, sys
from pathlib import Path
from pyroute2 import netns
from lbdns_tools.lab.machines import network_namespaces
from lbdns_tools.lab.farm.lab_farm import machines
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.machines.control_groups import TOP, make_group
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.machines.leftover_cleanup import new_id, record

registry, moment = Path(sys.argv[1]), sys.argv[2]
id = new_id(registry)
traces = record(id, registry)
hub, _, web, *_ = machines(LabFarm((WebHost("gandalf", 0.4),)))
if moment == "half":
    # The hub has no bridge yet, and there are no groups
    netns.create(network_namespaces.namespace_of(id, "hub"))
if moment == "whole":
    network_namespaces.build(id, (hub, web))
    place = PlacedMachine(web, network_namespaces.namespace_of(id, web.name), make_group(f"{TOP}/{id}/gandalf"))
    place.resolv_conf("nameserver 198.18.0.53")
    (traces.folder / "log").write_text("hello")
    child = subprocess.Popen(
        place.command("sh", "-c", "trap '' TERM; echo up; sleep 1000 & wait"), stdout=subprocess.PIPE, text=True
    )
    child.stdout.readline()
print(id, flush=True)
input()
"""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Path]:
    """Yield a registry for one test, so that clean() does not see any other labs."""
    folder = tmp_path / "registry"
    try:
        yield folder
    finally:
        clean(all=True, registry=folder)


def start(registry: Path, moment: str) -> tuple[subprocess.Popen[str], str]:
    path = os.pathsep.join(filter(None, sys.path))
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(registry), moment],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert owner.stdout is not None
    id = owner.stdout.readline().strip()
    assert len(id) == 6, owner.communicate()
    return owner, id


def end(owner: subprocess.Popen[str]) -> None:
    owner.kill()
    assert owner.stdin is not None
    assert owner.stdout is not None
    owner.stdin.close()
    owner.stdout.close()
    assert owner.wait(60) == -signal.SIGKILL


def left(id: str, registry: Path) -> list[str]:
    """Return the paths of all remaining traces of a lab."""
    group = ControlGroup(f"{TOP}/{id}", find_hierarchies())
    paths = [*NAMESPACES.glob(f"*{id}*"), *ETC.glob(f"*{id}*"), *registry.glob(f"*{id}*"), *registry.glob(f".{id}*")]
    return [str(path) for path in (*paths, *(at for at in group.directories() if at.exists()))]


@pytest.mark.parametrize("moment", [NOTED, HALF, WHOLE])
def test_owner_killed(registry: Path, moment: str) -> None:
    owner, id = start(registry, moment)
    assert clean(registry=registry) == []  # it runs
    before = left(id, registry)
    end(owner)
    assert left(id, registry) == before
    removed = clean(registry=registry)
    assert removed[0] == f"lab {id}, left behind by a process that has exited"
    assert removed[-1] == str(registry / id)
    assert ("network namespace" in "".join(removed)) == (moment != NOTED)
    assert any(line.startswith("processes ") for line in removed) == (moment == WHOLE)
    assert left(id, registry) == []
    assert not registry.exists()
    assert clean(registry=registry) == []  # twice in a row


def test_all_takes_what_runs(registry: Path) -> None:
    owner, id = start(registry, WHOLE)
    programs = ControlGroup(f"{TOP}/{id}", find_hierarchies()).pids()
    assert programs
    removed = clean(all=True, registry=registry)
    assert removed[0] == f"lab {id}, run by process {owner.pid}"
    assert left(id, registry) == []
    assert owner.poll() is None  # it will notice
    eventually(lambda: all(map(_has_ended, programs)), "its programs are gone")
    end(owner)


def _has_ended(pid: int) -> bool:
    try:
        return b") Z" in Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_removed_by_its_owner(registry: Path) -> None:
    id = new_id(registry)
    traces = record(id, registry)
    assert traces.is_running
    assert traces.folder.stat().st_mode & 0o777 == 0o755
    assert [found.id for found in labs(registry)] == [id]
    assert traces.remove() == [str(registry / id)]
    assert labs(registry) == []
    assert traces.remove() == []


def test_an_id_is_taken_once(registry: Path) -> None:
    traces = record(new_id(registry), registry)
    with pytest.raises(LbdnsError, match=f"lab {traces.id} already exists"):
        record(traces.id, registry)
    assert traces.is_running
    assert sorted(path.name for path in registry.iterdir()) == [traces.id, f"{traces.id}.json"]


def test_a_number_given_to_another_process(registry: Path) -> None:
    traces = record(new_id(registry), registry)
    assert traces.owner is not None
    for other in (replace(traces.owner, started=traces.owner.started + 1), replace(traces.owner, boot="before")):
        (registry / f"{traces.id}.json").write_text(json.dumps(asdict(other)))
        (found,) = labs(registry)
        assert not found.is_running


def test_a_dead_process_nobody_has_looked_at(registry: Path) -> None:
    owner, _ = start(registry, NOTED)
    (found,) = labs(registry)
    assert found.is_running
    owner.kill()
    eventually(lambda: _has_ended(owner.pid), "it is dead")
    assert not found.is_running
    end(owner)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"pid": 1}'])
def test_a_note_nobody_can_read_is_a_lab_to_remove(registry: Path, text: str) -> None:
    registry.mkdir()
    (registry / "abcdef.json").write_text(text)
    assert clean(registry=registry) == ["lab abcdef, left behind by a process that has exited"]
    assert not registry.exists()


def test_other_files_are_left_alone(registry: Path) -> None:
    registry.mkdir()
    for name in ("../other.json", "readme.json", "abcdef.txt", "ABCDEF.json"):
        (registry / name).write_text("{}")
    assert clean(registry=registry) == []
    assert len(list(registry.iterdir())) == 3


def test_what_fails_is_told_and_tried_again(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (LabTraces(record(new_id(registry), registry).id, None, registry) for _ in range(2))
    for traces in (first, second):
        (registry / f"{traces.id}.json").write_text("")

    def refuse(id: str) -> list[str]:
        if id == first.id:
            raise LbdnsError("the network won't go")
        return []

    with monkeypatch.context() as patch:
        patch.setattr(network_namespaces, "remove", refuse)
        with pytest.raises(LbdnsError) as caught:
            clean(registry=registry)
    message = str(caught.value)
    assert f"lab {first.id} could not be removed completely:\nthe network won't go" in message
    assert f"removed: {registry / second.id}" in message
    assert [traces.id for traces in labs(registry)] == [first.id]
    assert not first.folder.exists()
    assert clean(registry=registry) == [f"lab {first.id}, left behind by a process that has exited"]
