"""Checks that the balancers accept their configuration files and forward real requests."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools import installed_programs
from lbdns_tools.lab.farm.lab_farm import PROXIES, LabFarm, LabMachine, WebHost, machines
from lbdns_tools.lab.loads.farm_load import FRONTS
from lbdns_tools.lab.machines.network_namespaces import inside
from lbdns_tools.lab.machines.server_probes import get
from lbdns_tools.lab.programs.balancer_config import CONFIGURATIONS
from lbdns_tools.lab.programs.balancer_programs import ALL, start, write_config
from lbdns_tools.lab.programs.balancer_setup import LEAST_CONNECTIONS, PASSED_THROUGH, TERMINATED, BalancerSetup
from lbdns_tools.lab.programs.tls_certificate import write_certificate
from lbdns_tools.lab.programs.web_content import write_content
from lbdns_tools.lab.programs.web_host_programs import apache
from tests.needs import needs, program
from tests.tools.lab.lab_machines import NEEDED, Machines, network_of

FARM = LabFarm((WebHost("bilbo", 0.5, workers=8), WebHost("frodo", 0.5, workers=8)), proxies=PROXIES)
CHECKS = {"haproxy": ("-c", "-f"), "nginx": ("-t", "-e", "stderr", "-c"), "pound": ("-c", "-f")}
HAS_POUND = pytest.mark.skipif(not installed_programs.is_there("pound"), reason="Debian 12 has no Pound")
#: Each with the program that it needs
SETUPS = [
    pytest.param(setup, id=name, marks=HAS_POUND if setup.program == "pound" else needs(programs=(setup.program,)))
    for name, setup in FRONTS.items()
]


@pytest.fixture
def hosts() -> list[LabMachine]:
    return [machine for machine in machines(FARM) if machine.kind == "web"]


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("certificate"), "hobbit")


def test_there_is_one_of_each() -> None:
    assert tuple(ALL) == tuple(CONFIGURATIONS) == PROXIES


@pytest.mark.parametrize("name", PROXIES)
def test_the_file_has_the_name_that_the_program_expects(name: str, hosts: list[LabMachine], tmp_path: Path) -> None:
    path = write_config(BalancerSetup(name), hosts, tmp_path / name)
    assert path == tmp_path / name / ALL[name].file_name
    assert all(host.address in path.read_text() for host in hosts)


@needs(programs=("openssl",), root=True)
@pytest.mark.parametrize("setup", SETUPS)
def test_its_program_takes_it(setup: BalancerSetup, hosts: list[LabMachine], certificate: Path, tmp_path: Path) -> None:
    path = write_config(setup, hosts, tmp_path, certificate)
    done = subprocess.run(
        [program(setup.program), *CHECKS[setup.program], path], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr.lower(), done.stderr


def test_what_it_can_not(hosts: list[LabMachine], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pound: method must be one of 'roundrobin', not 'leastconn'"):
        write_config(BalancerSetup("pound", LEAST_CONNECTIONS), hosts, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_program_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("lbdns_tools.installed_programs._SYSTEM_FOLDERS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not installed_programs.is_there("pound")
    (tmp_path / "pound").touch(mode=0o755)
    assert installed_programs.is_there("pound")


@pytest.fixture(scope="module")
def lab(certificate: Path) -> Iterator[Machines]:
    with network_of(FARM) as found:
        content = found.folder / "content"
        write_content(content)
        for host in FARM.hosts:
            place, folder = found.places[host.name], found.folder / host.name
            apache(found.programs, place, host, content, folder, keep_alive=True, certificate=certificate)
        yield found


def status(lab: Machines, name: str) -> dict[str, str]:
    """Return the status page of a web host."""
    page = get(lab.places[name], "/server-status?auto")
    assert page is not None
    return dict(line.split(": ", 1) for line in page[1].decode().splitlines() if ": " in line)


def served(lab: Machines) -> Counter[str]:
    """Return the number of requests that each web host has received."""
    return Counter({host.name: int(status(lab, host.name)["Total Accesses"]) for host in lab.webs})


needs_balancers = needs(programs=(*NEEDED, "apache2", "openssl"), root=True, namespaces=True, cpu_groups=True)


@needs_balancers
@pytest.mark.parametrize("setup", SETUPS)
def test_requests_are_spread(lab: Machines, setup: BalancerSetup, certificate: Path) -> None:
    place, tls = lab.places[setup.program], bool(setup.tls)
    running = start(lab.programs, setup, place, lab.webs, lab.folder / setup.program, certificate)
    try:
        before = served(lab)
        for _ in range(20):
            found = get(place, "/file5k.html", tls=tls)
            assert found == (200, (lab.folder / "content/pages/file5k.html").read_bytes())
        more = served(lab)
        more.subtract(before)
        # nginx shares no counter between its processes: each takes turns of its own
        assert all(7 <= count <= 14 for count in more.values()), more
        found = get(place, "/cgi-bin/file?size=50000", tls=tls)
        assert found is not None
        assert len(found[1]) == 50_000
        assert place.group.pids()
        assert get(place, "/", tls=not tls) is None, "the other port is closed"
    finally:
        running.stop()
    assert not place.group.pids()
    lab.programs.check()


def sleeping(lab: Machines, name: str) -> int:
    """Return the number of CGI programs that sleep on a web host now. Each of them has started /bin/sleep."""
    found = 0
    for pid in lab.places[name].group.pids():
        with contextlib.suppress(OSError):
            found += Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\0000.5\0"
    return found


def most_sleeping(lab: Machines, setup: BalancerSetup, clients: int) -> int:
    """Return the most CGI programs that sleep on one host at a time, while ``clients`` request them."""
    place = lab.places[setup.program]
    running = start(lab.programs, setup, place, lab.webs, lab.folder / setup.program)
    try:
        with ThreadPoolExecutor(clients) as pool:
            asked = [pool.submit(get, place, "/cgi-bin/sleep?s=0.5") for _ in range(clients)]
            found = 0
            while not all(each.done() for each in asked):
                found = max(found, *(sleeping(lab, host.name) for host in lab.webs))
        assert [page is not None and page[0] for page in (each.result() for each in asked)] == [200] * clients
        return found
    finally:
        running.stop()


@needs(programs=("haproxy",))
@needs_balancers
def test_a_host_gets_no_more_connections_than_its_limit(lab: Machines) -> None:
    assert most_sleeping(lab, BalancerSetup("haproxy", most_per_host=2), 12) == 2
    assert most_sleeping(lab, BalancerSetup("haproxy"), 12) > 2


@needs(programs=("nginx",))
@needs_balancers
@pytest.mark.parametrize("keeps", [True, False])
def test_connections_to_the_hosts_are_kept_or_not(lab: Machines, keeps: bool) -> None:
    """A connection that Apache waits for is in the state K on its status page."""
    place, setup = lab.places["nginx"], BalancerSetup("nginx", keeps_connections=keeps)
    running = start(lab.programs, setup, place, lab.webs, lab.folder / "nginx")
    try:
        kept = 0
        for _ in range(20):
            assert get(place, "/1k.html") is not None
            kept += sum(status(lab, host.name)["Scoreboard"].count("K") for host in lab.webs)
        assert (kept > 0) == keeps
    finally:
        running.stop()


@needs(programs=("haproxy",))
@needs_balancers
@pytest.mark.parametrize("tls", [TERMINATED, PASSED_THROUGH])
def test_where_tls_ends(lab: Machines, certificate: Path, tls: str, tmp_path: Path) -> None:
    """Only a balancer that ends TLS shows a certificate of its own."""
    other = write_certificate(tmp_path, "other")
    place = lab.places["haproxy"]
    running = start(lab.programs, BalancerSetup("haproxy", tls=tls), place, lab.webs, lab.folder / "haproxy", other)
    try:
        address = (place.machine.address, 443)
        shown = inside(place.namespace, lambda: ssl.get_server_certificate(address, timeout=60))
        expected = other if tls == TERMINATED else certificate
        assert shown.strip() in expected.read_text()
    finally:
        running.stop()


@needs(programs=("nginx",))
@needs_balancers
def test_a_program_that_is_missing_is_an_error(lab: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns_tools.installed_programs.find", lambda name: None)
    with pytest.raises(LbdnsError, match="nginx: not found"):
        start(lab.programs, BalancerSetup("nginx"), lab.places["nginx"], lab.webs, lab.folder / "missing")
    assert (lab.folder / "missing" / "nginx.conf").exists()
