"""Checks that the balancers accept their configuration files and forward real requests."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools import installed_programs
from lbdns_tools.lab.farm.lab_farm import PROXIES, LabFarm, LabMachine, WebHost, machines
from lbdns_tools.lab.machines.server_probes import get
from lbdns_tools.lab.programs.balancer_programs import (
    ALL,
    LEAST_CONNECTIONS,
    METHODS,
    MOST_CONNECTIONS,
    ROUND_ROBIN,
    start,
    write_config,
)
from lbdns_tools.lab.programs.web_content import write_content
from lbdns_tools.lab.programs.web_host_programs import apache
from tests.needs import needs, program
from tests.tools.lab.lab_machines import NEEDED, Machines, network_of

FARM = LabFarm((WebHost("bilbo", 0.5, workers=4), WebHost("frodo", 0.5, workers=4)), proxies=("haproxy", "nginx"))
RUNNING = ("haproxy", "nginx")
CHECKS = {"haproxy": ("-c", "-f"), "nginx": ("-t", "-e", "stderr", "-c")}


@pytest.fixture
def hosts() -> list[LabMachine]:
    return [machine for machine in machines(FARM) if machine.kind == "web"]


def test_there_is_one_of_each() -> None:
    assert tuple(ALL) == PROXIES


@pytest.mark.parametrize("name", PROXIES)
def test_all_hosts_are_in_it(name: str, hosts: list[LabMachine], tmp_path: Path) -> None:
    path = write_config(name, hosts, ROUND_ROBIN, tmp_path / name)
    text = path.read_text()
    for host in hosts:
        assert host.address in text
    assert path.name == ALL[name].file_name
    assert str(MOST_CONNECTIONS) in text or str(2 * MOST_CONNECTIONS) in text
    assert "{" not in text or name == "nginx"


@needs(programs=RUNNING, root=True)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", RUNNING)
def test_its_program_takes_it(name: str, method: str, hosts: list[LabMachine], tmp_path: Path) -> None:
    path = write_config(name, hosts, method, tmp_path)
    done = subprocess.run(
        [program(name), *CHECKS[name], path], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr.lower(), done.stderr


def test_methods_differ(hosts: list[LabMachine], tmp_path: Path) -> None:
    for name in RUNNING:
        texts = {method: write_config(name, hosts, method, tmp_path).read_text() for method in METHODS}
        assert texts[ROUND_ROBIN] != texts[LEAST_CONNECTIONS]


def test_what_it_can_not(hosts: list[LabMachine], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pound has no method 'leastconn'"):
        write_config("pound", hosts, LEAST_CONNECTIONS, tmp_path)
    with pytest.raises(ConfigError, match=r"unknown balancer 'haprox'.*haproxy"):
        write_config("haprox", hosts, ROUND_ROBIN, tmp_path)


def test_pound(hosts: list[LabMachine], tmp_path: Path) -> None:
    lines = [line.split() for line in write_config("pound", hosts, ROUND_ROBIN, tmp_path).read_text().splitlines()]
    opened = [line[0] for line in lines if line and line[0] in ("ListenHTTP", "Service", "Backend")]
    assert opened == ["ListenHTTP", "Service", "Backend", "Backend"]
    assert [line for line in lines if line == ["End"]] == [["End"]] * len(opened)
    assert ["Balancer", "iwrr"] in lines


def test_a_program_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("lbdns_tools.installed_programs._SYSTEM_FOLDERS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not installed_programs.is_there("pound")
    (tmp_path / "pound").touch(mode=0o755)
    assert installed_programs.is_there("pound")


@pytest.fixture(scope="module")
def lab() -> Iterator[Machines]:
    with network_of(FARM) as found:
        content = found.folder / "content"
        write_content(content)
        for host in FARM.hosts:
            apache(found.programs, found.places[host.name], host, content, found.folder / host.name)
        yield found


def served(lab: Machines) -> Counter[str]:
    """Return the number of requests that each web host has received."""
    found: Counter[str] = Counter()
    for host in lab.webs:
        page = get(lab.places[host.name], "/server-status?auto")
        assert page is not None
        (line,) = (line for line in page[1].decode().splitlines() if line.startswith("Total Accesses: "))
        found[host.name] = int(line.rpartition(" ")[2])
    return found


@needs(programs=(*NEEDED, "apache2", *RUNNING), root=True, namespaces=True, cpu_groups=True)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", RUNNING)
def test_requests_are_spread(lab: Machines, name: str, method: str) -> None:
    place = lab.places[name]
    running = start(lab.programs, name, method, place, lab.webs, lab.folder / name)
    try:
        before = served(lab)
        for _ in range(20):
            assert get(place, "/file5k.html") == (200, (lab.folder / "content/pages/file5k.html").read_bytes())
        more = served(lab)
        more.subtract(before)
        # nginx shares no counter between its processes: each takes turns of its own
        assert all(7 <= count <= 14 for count in more.values()), more
        found = get(place, "/cgi-bin/file?size=50000")
        assert found is not None
        assert len(found[1]) == 50_000
        assert place.group.pids()
    finally:
        running.stop()
    assert not place.group.pids()
    lab.programs.check()


@needs(programs=(*NEEDED, "apache2", "nginx"), root=True, namespaces=True, cpu_groups=True)
def test_a_program_that_is_missing_is_an_error(lab: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns_tools.installed_programs.find", lambda name: None)
    with pytest.raises(LbdnsError, match="nginx: not found"):
        start(lab.programs, "nginx", ROUND_ROBIN, lab.places["nginx"], lab.webs, lab.folder / "missing")
    assert (lab.folder / "missing" / "nginx.conf").exists()
