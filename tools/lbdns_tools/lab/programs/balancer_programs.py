"""Configures and starts HAProxy, nginx and Pound in front of the lab's web hosts, for comparison with lbdns.

The balancers use the default settings of the Debian packages, except for settings that distort the measurements. The
balancers' connection limit is raised, because one study has 1,401 clients. Requests are not logged. Balancers do not
reuse connections to the web hosts, because Apache closes each connection after one request. Session affinity is
disabled, because all clients on a client host share that host's addresses.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError
from lbdns_tools import installed_programs
from lbdns_tools.lab.farm.lab_farm import HTTP_PORT, PROXIES, LabMachine
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.machines.server_probes import get
from lbdns_tools.lab.programs.lab_programs import LabProgram, LabPrograms

ROUND_ROBIN, LEAST_CONNECTIONS = "roundrobin", "leastconn"
METHODS: Final = (ROUND_ROBIN, LEAST_CONNECTIONS)
#: The limit of a balancer's concurrent client connections. In the packages, HAProxy's limit is the number of file
#: descriptors, nginx's is 768 for clients and servers together, and Pound's is 128
MOST_CONNECTIONS: Final = 4096
_USER, _GROUP = "www-data", "www-data"
# By default, HAProxy would keep a client's server connections open and would not check hosts. The timeouts are those of
# Debian's haproxy.cfg; the health checks are those of all examples in HAProxy's manual
_HAPROXY_CFG: Final = """\
global
    maxconn {most}
    user {user}
    group {group}

defaults
    mode http
    option http-server-close
    timeout connect 5s
    timeout client 50s
    timeout server 50s

frontend www
    bind :::{port} v4v6
    default_backend web

backend web
    balance {method}
{servers}
"""
# Each client needs two connections. nginx runs one process per processor, as in the package. By default, it uses round
# robin, and HTTP/1.0 with one connection per request to the hosts
_NGINX_CONF: Final = """\
daemon off;
user {user} {group};
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
worker_processes auto;
worker_rlimit_nofile {files};

events {{
    worker_connections {connections};
}}

http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;

    upstream web {{
{method}{servers}
    }}

    server {{
        listen {port} backlog=4096;
        listen [::]:{port} backlog=4096;

        location / {{
            proxy_pass http://web;
            proxy_set_header Host $host;
        }}
    }}
}}
"""
# For Pound 4: Pound 3 has another syntax, Pound 2 lacks Balancer and WorkerMaxCount. Pound chooses at random by default
_POUND_CFG: Final = """\
User "{user}"
Group "{group}"
Daemon 0
LogLevel 0
WorkerMaxCount {most}
Balancer iwrr

ListenHTTP
    Address ::
    Port {port}
    Service
{servers}
    End
End
"""
_POUND_HOST: Final = """\
        Backend
            Address {address}
            Port {port}
        End"""


@dataclass(frozen=True, slots=True)
class BalancerProgram:
    """A balancer and its configuration.

    ``template`` is a template for the configuration file. ``host`` is a template for a web host's entry.

    ``methods`` maps each balancing method to its configuration text. ``arguments`` are the command-line arguments that
    start the balancer in the foreground with the configuration file ``{config}``.
    """

    file_name: str
    template: str
    host: str
    methods: Mapping[str, str]
    arguments: tuple[str, ...]


#: The balancer program for each name in PROXIES
ALL: Final[Mapping[str, BalancerProgram]] = {
    "haproxy": BalancerProgram(
        "haproxy.cfg", _HAPROXY_CFG, "    server {name} {address}:{port} check", {name: name for name in METHODS},
        ("-db", "-f", "{config}"),
    ),
    "nginx": BalancerProgram(
        "nginx.conf", _NGINX_CONF, "        server {address}:{port};",
        {ROUND_ROBIN: "", LEAST_CONNECTIONS: "        least_conn;\n"},
        # Without -e, errors before the configuration is read would go to the package's log
        ("-p", "{folder}", "-e", "stderr", "-c", "{config}"),
    ),
    "pound": BalancerProgram(
        "pound.cfg", _POUND_CFG, _POUND_HOST, {ROUND_ROBIN: ""},
        ("-F", "-e", "-f", "{config}", "-p", "{folder}/pound.pid"),
    ),
}  # fmt: skip


def write_config(name: str, hosts: Sequence[LabMachine], method: str, folder: Path) -> Path:
    """Write a balancer's configuration file into ``folder`` and return its path.

    The balancer need not be installed. Raises ConfigError.
    """
    proxy = ALL.get(name)
    if proxy is None:
        raise ConfigError(f"unknown balancer {name!r}{nearest(name, PROXIES)}")
    if method not in proxy.methods:
        raise ConfigError(f"{name} has no method {method!r}{nearest(method, tuple(proxy.methods))}")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    path = folder / proxy.file_name
    servers = [proxy.host.format(name=host.name, address=host.address, port=HTTP_PORT) for host in hosts]
    text = proxy.template.format(
        most=MOST_CONNECTIONS, connections=2 * MOST_CONNECTIONS, files=4 * MOST_CONNECTIONS, user=_USER, group=_GROUP,
        folder=folder, port=HTTP_PORT, method=proxy.methods[method], servers="\n".join(servers),
    )  # fmt: skip
    path.write_text(text)
    return path


def start(
    programs: LabPrograms, name: str, method: str, place: PlacedMachine, hosts: Sequence[LabMachine], folder: Path
) -> LabProgram:
    """Start a balancer with its files in ``folder``, and wait until it forwards requests. Raises LbdnsError."""
    config = write_config(name, hosts, method, folder)
    arguments = [argument.format(config=config, folder=folder) for argument in ALL[name].arguments]

    def forwards() -> bool:
        found = get(place, "/")
        return found is not None and found[0] == http.client.OK

    return programs.start(name, place.command(installed_programs.path_of(name), *arguments), ready=forwards)
