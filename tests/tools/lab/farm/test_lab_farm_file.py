"""Tests of reading user-defined lab farms from TOML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.farm.lab_farm_file import MAX_HOSTS, beyond, read_farm

WHOLE = """\
[[host]]
name = "gandalf"
cpu = 0.4
memory = 268435456
workers = 50
site = "berlin"

[[host]]
name = "frodo"
cpu = 1
site = "paris"

[farm]
clients = 2
proxies = ["haproxy", "nginx"]
resolvers = 3
resolver_min_ttl = 5
interval = 0.5
check = "tcp:80"
alarms = false
joining = "web-*"
score = "thesis"
agents_inside = true
cpu_period = 0.02
near = 0.002
far = 0.1
"""
HOST = '[[host]]\nname = "a"\ncpu = 0.5\n'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "farm.toml"
    path.write_text(text)
    return path


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    assert read_farm(written(tmp_path, WHOLE)) == LabFarm(
        (WebHost("gandalf", 0.4, 268435456, 50, "berlin"), WebHost("frodo", 1.0, site="paris")),
        clients=2, proxies=("haproxy", "nginx"), resolvers=3, resolver_min_ttl=5, interval=0.5, agents_inside=True,
        check="tcp:80", alarms=False, joining="web-*", score="thesis",
        cpu_period=0.02, near_s=0.002, far_s=0.1,
    )  # fmt: skip


def test_a_host_is_enough(tmp_path: Path) -> None:
    assert read_farm(written(tmp_path, HOST)) == LabFarm((WebHost("a", 0.5),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'{HOST}[farm]\njoining = "Web *"\n', "joining: 'Web *' is not a pattern for host names, such as 'web-*'"),
        ("", "host: is missing; add a [[host]] table for each web server, with name and cpu (in cores, such as"),
        ('[host]\nname = "a"\n', "host: must be an array of tables, written as [[host]]"),
        ("[[host]]\ncpu = 0.5\n", "farm.toml:1: [host 1] name: is missing"),
        ('[[host]]\nname = "a"\n', "farm.toml:1: [host a] cpu: is missing; specify the number of cores, such as 0.4"),
        (HOST.replace("0.5", "0"), "farm.toml:3: [host a] cpu: must be a number from 0.001 to 1024"),
        (HOST.replace("0.5", "-1"), "cpu: must be a number from 0.001 to 1024"),
        (HOST.replace("0.5", '"half"'), "cpu: must be a number"),
        (
            HOST.replace("0.5", "0.005"),
            "0.005 cores correspond to 0.5 ms of CPU time per period of 100 ms, but the kernel's",
        ),
        (HOST.replace('"a"', '"Frodo B"'), "farm.toml:2: [host Frodo B] name: must be 1 to 63 letters"),
        (HOST.replace('"a"', '"-a"'), "without a hyphen at either end"),
        (HOST.replace('"a"', f'"{"a" * 64}"'), "must be 1 to 63 letters a-z, digits or hyphens"),
        (HOST.replace('"a"', '"a.b"'), "found 'a.b'"),
        (HOST.replace('"a"', '"best"'), "'best' is reserved for the lab; choose another name for the host"),
        (HOST.replace('"a"', '"dns"'), "'dns' is reserved"),
        (HOST.replace('"a"', '"client1"'), "'client1' is reserved"),
        (HOST.replace('"a"', '"haproxy"'), "'haproxy' is reserved"),
        (HOST.replace('"a"', '"b-agent"'), "'b-agent' is reserved"),
        (HOST + HOST, "farm.toml:5: [host a] name: two hosts have the name 'a'; rename one of them"),
        (f"{HOST}memory = 1000\n", "memory: must be a whole number from 16777216"),
        (f"{HOST}workers = 0\n", "workers: must be a whole number from 1 to 20000"),
        (f"{HOST}wrokers = 5\n", "[host a] wrokers: unknown key. Perhaps you meant 'workers'?"),
        (f"{HOST}[farm]\nclient = 2\n", "[farm] client: unknown key. Perhaps you meant 'clients'?"),
        (f"{HOST}[fram]\nclients = 2\n", "fram: unknown key. Perhaps you meant 'farm'?"),
        (f"{HOST}[farm]\nclients = 0\n", "clients: must be a whole number from 1 to 100"),
        (f'{HOST}[farm]\nproxies = ["ngnix"]\n', "proxies: unknown value 'ngnix'. Perhaps you meant 'nginx'?"),
        (f'{HOST}[farm]\nproxies = ["nginx", "nginx"]\n', "proxies: lists 'nginx' twice"),
        (f"{HOST}[farm]\nresolver_min_ttl = 5\n", "the farm has no resolver; add resolvers = 1"),
        (f'{HOST}[farm]\nscore = "theses"\n', "score"),
        (f"{HOST}[farm]\ncpu_period = 2\n", "cpu_period: must be a number from 0.001 to 1"),
        (f"{HOST}[farm]\ninterval = nan\n", "interval: must be a number"),
        (f'{HOST}[farm]\ncheck = "tcp"\n', "check: 'tcp' is not a valid check"),
        (f'{HOST}site = "Bad Ems"\n', "site: 'Bad Ems' is not a name of letters a-z"),
        (
            f'{HOST}site = "x"\n[[host]]\nname = "b"\ncpu = 1\n',
            "b: site is missing; either all hosts or none have a site",
        ),
        (
            f'{HOST}site = "x"\n[[host]]\nname = "b"\ncpu = 1\nsite = "y"\n',
            "clients: must be at least 2, so that each site has a client",
        ),
        (f"{HOST}[farm]\nfar = -1\n", "far: must be a number from 0 to 10"),
        ("[[host]\n", "TOML:"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_farm(written(tmp_path, text))
    assert message in str(caught.value)
    assert len(caught.value.findings) == 1


def test_all_errors_are_found_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_farm(written(tmp_path, '[[host]]\nname = "A"\ncpu = 0\nworker = 1\n[farm]\nclients = "two"\n'))
    assert len(caught.value.findings) == 4


def test_a_farm_that_is_too_large(tmp_path: Path) -> None:
    text = "".join(HOST.replace('"a"', f'"h{number}"') for number in range(MAX_HOSTS + 1))
    with pytest.raises(ConfigError, match="a lab must have at most 200 web hosts, not 201"):
        read_farm(written(tmp_path, text))


def test_a_short_quota_is_right_where_the_period_is_longer(tmp_path: Path) -> None:
    found = read_farm(written(tmp_path, f"{HOST.replace('0.5', '0.002')}[farm]\ncpu_period = 0.5\n"))
    assert found.hosts[0].cpu == 0.002


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the file"):
        read_farm(tmp_path / "none.toml")


def test_more_than_the_machine_has() -> None:
    farm = LabFarm((WebHost("a", 1.5), WebHost("b", 1.0)))
    assert beyond(farm, 4) == ""
    assert beyond(farm, 2).startswith("the hosts have 2.5 cores in total, but this machine has 2")
