"""Tests of reading user-defined simulated farms from TOML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.sim.scenario_files import read_farm, read_score
from lbdns_tools.sim.simulation_scenario import Scenario, ServerSpec, SimulatedClients

WHOLE = """\
[[server]]
name = "gandalf"
speed = 2.0
cores = 2
workers = 150
backlog = 100
background = 0.5
quota = 1.5

[[server]]

[requests]
workload = "html"
load = [0.5, 0.7]
clients = "caches:20"

[reports]
interval = 0.5
loss = 0.01
stale_after = 4
dns_servers = 2
"""


def farm(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "farm.toml"
    path.write_text(text)
    return path


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    servers = (ServerSpec("gandalf", 2.0, 2.0, 150, 100, 0.5, quota=1.5), ServerSpec("s2"))
    one, other = read_farm(farm(tmp_path, WHOLE))
    expected = Scenario(
        servers,
        "html",
        0.5,
        None,
        SimulatedClients("caches", 20),
        interval=0.5,
        loss=0.01,
        stale_after=4.0,
        dns_servers=2,
    )
    assert one == expected
    assert (other.load, other.servers) == (0.7, servers)


def test_the_servers_of_the_backup_come_last(tmp_path: Path) -> None:
    servers = (
        '[[server]]\nname = "b1"\nbackup = true\n[[server]]\nname = "s1"\n[[server]]\nname = "s2"\nbackup = false\n'
    )
    (scenario,) = read_farm(farm(tmp_path, servers))
    assert [server.name for server in scenario.servers] == ["s1", "s2", "b1"]
    assert scenario.backup_members == (2,)


def test_sites_of_servers_and_of_clients(tmp_path: Path) -> None:
    servers = '[[server]]\nname = "b1"\nsite = "ber"\n[[server]]\nname = "p1"\nsite = "par"\n'
    (scenario,) = read_farm(farm(tmp_path, f"{servers}[requests.sites]\npar = 3\n[sites]\nnear = 2\nfar = 80.5\n"))
    assert scenario.sites == ("ber", "par")
    assert scenario.client_weights == (0.0, 3.0)
    assert (scenario.near, scenario.far) == pytest.approx((0.002, 0.0805))
    (scenario,) = read_farm(farm(tmp_path, servers))
    assert scenario.client_weights == (1.0, 1.0)
    assert (scenario.near, scenario.far) == (0.005, 0.06)


def test_a_server_is_enough(tmp_path: Path) -> None:
    assert read_farm(farm(tmp_path, "[[server]]\n")) == (Scenario((ServerSpec("s1"),)),)
    (scenario,) = read_farm(farm(tmp_path, "[[server]]\n[requests]\nrate = 12.5\n"))
    assert scenario.rate == 12.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "farm.toml: server: at least one [[server]] is required"),
        ("[[server]]\nsped = 2\n", "farm.toml:2: [server 1] sped: unknown key. Perhaps you meant 'speed'?"),
        ("[[server]]\nspeed = 0\n", "farm.toml:2: [server 1] speed: must be a number from"),
        ('[[server]]\nname = "a"\n[[server]]\nname = "a"\n', "two servers are named 'a'"),
        ('[[server]]\n[requests]\nworkload = "htm"\n', "farm.toml:3: [requests] workload: unknown value 'htm'"),
        ("[[server]]\n[requests]\nload = [0.5, 20]\n", "farm.toml:3: [requests] load: [0.5, 20] must be a list"),
        ("[[server]]\n[requests]\nload = []\n", "load: [] must be a list"),
        ("[[server]]\n[requests]\nload = 0.5\nrate = 3\n", "rate: rate and load cannot be combined"),
        ('[[server]]\n[requests]\nclients = "closd:3"\n', "Perhaps you meant 'closed'?"),
        ("[[server]]\n[report]\n", "farm.toml:2: report: unknown key. Perhaps you meant 'reports'?"),
        ("[[server]]\nbackup = true\n", "every server is a backup"),
        (
            '[[server]]\nsite = "ber"\n[[server]]\nsite = "par"\nbackup = true\n',
            "a pool with sites cannot have a backup; remove site or backup",
        ),
        ('[[server]]\nsite = "ber"\n[[server]]\n', "some servers have a site, and others have none"),
        (
            '[[server]]\nsite = "ber"\n[requests.sites]\nbr = 1\n',
            "no server is in the site 'br'. Perhaps you meant 'ber'?",
        ),
        ('[[server]]\nsite = "ber"\n[requests.sites]\nber = 0\n', "at least one site must have a weight above 0"),
        ("[[server]]\n[sites]\nnear = -1\n", "farm.toml:3: [sites] near: must be a number from"),
        ("[[server]\n", "farm.toml:1: TOML:"),
    ],
)
def test_errors_say_where_and_what_instead(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_farm(farm(tmp_path, text))
    assert message in str(error.value)


ONE = "[score.mine]\ncpu_idle = { weight = 20, limit = 100 }\n"


def test_scores(tmp_path: Path) -> None:
    assert read_score("thesis") == ("thesis", None)
    path = farm(tmp_path, f"{ONE}[server]\nworkers = 2\n")  # a whole lbdns.toml will do
    for text in (str(path), f"{path}:mine"):
        name, terms = read_score(text)
        assert name == "mine"
        assert terms is not None
        assert terms["cpu_idle"].weight == 20


@pytest.mark.parametrize(
    ("text", "ask", "message"),
    [
        (ONE, "{}:mien", "there is no table [score.mien]. Perhaps you meant 'mine'?"),
        (ONE + ONE.replace("mine", "yours"), "{}", "several scores; specify one"),
        ("", "{}", "the file must contain a [score.NAME] table"),
        (ONE, "thesi", "'thesi' is neither a built-in score nor FILE.toml:NAME. Perhaps you meant 'thesis'?"),
        ("[score.mine]\ncpu_idle = { weight = 20 }\n", "{}", "limit is missing"),
    ],
)
def test_scores_that_are_not_there(tmp_path: Path, text: str, ask: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_score(ask.format(farm(tmp_path, text)))
    assert message in str(error.value)
