"""Tests of the manifest of a report: program versions, machine details, and times."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from lbdns import __version__
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.report import report_manifest
from tests.needs import needs
from tests.tools.lab.made_up_outcomes import FARM

HOST = (WebHost("bilbo", 0.11),)
CPUINFO = """\
processor\t: 0
model name\t: Made-up CPU @ 3 GHz
flags\t\t: fpu sse2 hypervisor

processor\t: 1
model name\t: Another
"""


def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Make the programs in ``scripts`` the only programs that can be found."""
    for name, script in scripts.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setattr("lbdns_tools.installed_programs._SYSTEM_FOLDERS", "/nowhere")
    monkeypatch.setenv("PATH", f"{tmp_path}:/nowhere")


def test_versions_are_of_what_is_used_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(
        tmp_path,
        monkeypatch,
        apache2='echo "Server version: Apache/2.4.62 (Debian)"; echo "Server built: 2024-10-04"',
        nginx='echo "nginx version: nginx/1.22.1" >&2',
        haproxy="exit 1",
        unbound='echo "Version 1.17.1"',
    )
    ours = {"lbdns": __version__, "Python": platform.python_version(), "apache2": "2.4.62"}
    assert report_manifest.versions([LabFarm(HOST)]) == ours
    farms = [LabFarm(HOST, proxies=("nginx",)), LabFarm(HOST, proxies=("pound", "haproxy"))]
    assert report_manifest.versions(farms) == {
        **ours, "nginx": "1.22.1", "pound": report_manifest.NOT_THERE, "haproxy": report_manifest.UNKNOWN,
    }  # fmt: skip
    assert report_manifest.versions([LabFarm(HOST, resolvers=2)])["unbound"] == "1.17.1"


@pytest.mark.parametrize(
    "program",
    [pytest.param(name, marks=needs(programs=(name,))) for name in ("apache2", "haproxy", "nginx", "unbound")],
)
def test_real_programs_tell_their_version(program: str) -> None:
    assert report_manifest.version_of(program, report_manifest.PROGRAMS[program])[0].isdigit()


def test_the_machine_by_its_files(tmp_path: Path) -> None:
    governor = tmp_path / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    for path, text in (
        (tmp_path / "proc/cpuinfo", CPUINFO),
        (tmp_path / "proc/meminfo", "MemTotal:        2048 kB\nMemFree: 1 kB\n"),
        (governor, "performance\n"),
        (tmp_path / "sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    machine = report_manifest.machine(tmp_path)
    assert machine["processor"] == "Made-up CPU @ 3 GHz"
    assert (machine["governor"], machine["virtual"], machine["memory_bytes"]) == ("performance", True, 2097152)
    assert machine["control_groups"] == "version 2"
    assert len(machine["load_average_before"]) == 3


def test_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    machine = report_manifest.machine(tmp_path)
    assert machine["processor"] == platform.machine()
    assert (machine["governor"], machine["memory_bytes"]) == (report_manifest.UNKNOWN, None)
    assert machine["control_groups"] == "version 1"


def test_from_the_beginning_to_the_end() -> None:
    begun = report_manifest.begin("webstone", {"seed": 7, "clients": (20, 60)}, {"unequal": FARM})
    document = report_manifest.end(begun, ["cgi, 60 clients: no"], interrupted=True)
    assert list(document)[:6] == ["study", "began", "ended", "took_s", "interrupted", "failed"]
    assert json.loads(json.dumps(document))["settings"] == {"seed": 7, "clients": [20, 60]}
    frodo = {"name": "frodo", "cpu": 0.07, "memory": 0, "workers": 50, "site": ""}
    assert document["farms"]["unequal"]["hosts"][1] == frodo
    assert (document["failed"], document["interrupted"]) == (["cgi, 60 clients: no"], True)
    assert 0 <= document["took_s"] < 60
    assert begun["began"].endswith("+00:00")
