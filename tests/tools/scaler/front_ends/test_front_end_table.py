"""The sections [front_end] and [demand]: every kind with its defaults, its own keys and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError
from lbdns_tools.scaler.demand.collector_demand import CollectorDemand, CollectorDemandConfig
from lbdns_tools.scaler.demand.demand_table import DEMANDS
from lbdns_tools.scaler.demand.haproxy_demand import HaproxyDemand, HaproxyDemandConfig
from lbdns_tools.scaler.demand.nginx_demand import NginxDemand, NginxDemandConfig
from lbdns_tools.scaler.demand.shared_readers import SharedReaders
from lbdns_tools.scaler.front_ends.front_end_table import FRONT_ENDS
from lbdns_tools.scaler.front_ends.haproxy_front_end import HaproxyConfig, HaproxyFrontEnd
from lbdns_tools.scaler.front_ends.lbdns_front_end import LbdnsConfig, LbdnsFrontEnd
from lbdns_tools.scaler.front_ends.nginx_front_end import NginxConfig, NginxFrontEnd
from lbdns_tools.scaler.settings.scaler_settings import ScalerSettings, load_settings

LEAST = '[provider]\nkind = "processes"\nkey_file = "report.key"\n'


def load(folder: Path, text: str) -> ScalerSettings:
    path = folder / "scaler.toml"
    path.write_text(text + LEAST)
    return load_settings(path)


@pytest.mark.parametrize(
    ("kind", "settings", "front_end", "demand_settings", "demand"),
    [
        ("lbdns", LbdnsConfig(), LbdnsFrontEnd, CollectorDemandConfig(), CollectorDemand),
        ("haproxy", HaproxyConfig(), HaproxyFrontEnd, HaproxyDemandConfig(), HaproxyDemand),
        ("nginx", NginxConfig(), NginxFrontEnd, NginxDemandConfig(), NginxDemand),
    ],
)
def test_defaults(
    tmp_path: Path, kind: str, settings: Any, front_end: type, demand_settings: Any, demand: type
) -> None:
    found = load(tmp_path, f'[front_end]\nkind = "{kind}"\n')
    assert (found.front_end.kind, found.front_end.settings) == (kind, settings)
    assert (found.demand.kind, found.demand.settings) == (FRONT_ENDS[kind].demand, demand_settings)
    readers = SharedReaders()
    assert type(found.front_end.make_front_end(readers)) is front_end
    assert type(found.demand.make_demand(readers)) is demand


def test_lbdns_is_the_default(tmp_path: Path) -> None:
    found = load(tmp_path, "")
    assert (found.front_end.kind, found.demand.kind) == ("lbdns", "collector")
    assert {kind.demand for kind in FRONT_ENDS.values()} == set(DEMANDS)


def test_all_keys(tmp_path: Path) -> None:
    text = """
[front_end]
kind = "haproxy"
socket = "127.0.0.1:9998"
backend = "www"
config_file = "haproxy.cfg"
port = 8080
server_options = "check  inter 1s weight 100 agent-check agent-port 7778"
"""
    options = "check inter 1s weight 100 agent-check agent-port 7778"
    socket = Endpoint("127.0.0.1", 9998)
    assert load(tmp_path, text).front_end.settings == HaproxyConfig(
        socket, "www", tmp_path / "haproxy.cfg", 8080, options
    )
    assert load(tmp_path, text).demand.settings == HaproxyDemandConfig(socket, "www"), "as in [front_end]"
    found = load(tmp_path, text + '[demand]\nsocket = "/run/other.sock"\n')
    assert found.demand.settings == HaproxyDemandConfig(Path("/run/other.sock"), "www")
    text = """
[front_end]
kind = "nginx"
upstream_file = "web.conf"
server_options = "max_fails=2"
test_command = ["true"]
reload_command = ["systemctl", "reload", "nginx"]
status_url = "http://127.0.0.1:81/status"
"""
    found = load(tmp_path, text)
    assert found.front_end.settings == NginxConfig(
        tmp_path / "web.conf",
        80,
        "max_fails=2",
        ("true",),
        ("systemctl", "reload", "nginx"),
        "http://127.0.0.1:81/status",
    )
    assert found.demand.settings == NginxDemandConfig("http://127.0.0.1:81/status")


def test_demand_from_elsewhere_has_its_own_keys(tmp_path: Path) -> None:
    text = '[front_end]\nkind = "haproxy"\nbackend = "www"\n[demand]\nkind = "collector"\npool = "shop"\n'
    assert load(tmp_path, text).demand.settings == CollectorDemandConfig(pool="shop")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[front_end]\nkind = "haprox"\n', "2: [front_end] kind: unknown value 'haprox'. Perhaps you meant 'haproxy'?"),
        (
            '[front_end]\nsocket = "/s"\n',
            '2: [front_end] socket: belongs to kind "haproxy", but the kind is "lbdns"; remove the key or',
        ),
        (
            '[front_end]\nkind = "lbdns"\nserver_options = "check"\n',
            '3: [front_end] server_options: belongs to kind "haproxy" or "nginx", but the kind is "lbdns"',
        ),
        (
            '[front_end]\nkind = "nginx"\n[demand]\npool = "web"\n',
            '4: [demand] pool: belongs to kind "collector", but the kind is "nginx"',
        ),
        ('[front_end]\nkind = "nginx"\nprot = 80\n', "3: [front_end] prot: unknown key. Perhaps you meant 'port'?"),
        ('[front_end]\nkind = "haproxy"\nsocket = "admin sock"\n', "must be the path of a socket, or ADDRESS:PORT"),
        ('[front_end]\nkind = "haproxy"\nbackend = "a;b"\n', "must be the name of a backend, not 'a;b'"),
        ('[front_end]\nkind = "haproxy"\nserver_options = ""\n', "must contain 'check'"),
        ('[front_end]\nkind = "haproxy"\nserver_options = "check;"\n', "'check;' is not an option of a server line"),
        ('[front_end]\nkind = "haproxy"\nserver_options = "check disabled"\n', "must not contain 'disabled'"),
        (
            '[front_end]\nkind = "haproxy"\nserver_options = "check agent-check agent-port 7778"\n',
            "must contain 'weight 100' if it contains 'agent-check'",
        ),
        (
            '[front_end]\nkind = "haproxy"\nserver_options = "check weight 99 agent-check agent-port 7778"\n',
            "must contain 'weight 100' if it contains 'agent-check'",
        ),
        (
            '[front_end]\nkind = "nginx"\nserver_options = "down"\n',
            "'down' is not an option of a server line, or is set",
        ),
        ('[front_end]\nkind = "nginx"\nserver_options = "x;}"\n', "'x;}' is not an option of a server line"),
        (
            '[front_end]\nkind = "nginx"\ntest_command = []\n',
            "must be a program and its arguments, such as ['nginx', '-t'",
        ),
        (
            '[front_end]\nkind = "nginx"\nstatus_url = "nginx"\n',
            "'nginx' is not a URL such as http://127.0.0.1/nginx_s",
        ),
        ('[front_end]\ndns_servers = ["ns2"]\n', "[front_end] dns_servers: 'ns2' is not a URL"),
        ('[demand]\nurl = "ns1"\n', "[demand] url: 'ns1' is not a URL"),
    ],
)
def test_errors(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert expected in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1, caught.value
