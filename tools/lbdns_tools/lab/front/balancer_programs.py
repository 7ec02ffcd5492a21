"""HAProxy, nginx and Pound in front of the lab's web hosts, for comparison with lbdns: configuration and start.

Their settings are those of the Debian packages, except where these would distort the measurement: the connection limit
is raised (a study has 1,401 clients), and requests are not logged. No balancer keeps connections to the web hosts
open, since Apache closes them, and none pins a client to a server, since all clients of a host share its addresses.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError
from lbdns_tools import installed_programs
from lbdns_tools.lab.farm.lab_farm import HTTP_PORT, PROXIES
from lbdns_tools.lab.farm.machine_addresses import LabMachine
from lbdns_tools.lab.machines.lab_programs import LabProgram, LabPrograms
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.machines.server_probes import get

ROUND_ROBIN, LEAST_CONNECTIONS = "roundrobin", "leastconn"
METHODS: Final = (ROUND_ROBIN, LEAST_CONNECTIONS)
#: Concurrent client connections of a balancer. The packages allow: HAProxy as many as there are file descriptors, nginx
#: 768 for clients and servers together, Pound 128
MOST_CONNECTIONS: Final = 4096
_USER, _GROUP = "www-data", "www-data"


@dataclass(frozen=True, slots=True)
class BalancerProgram:
    """A balancer; ``name`` is the name of its program.

    ``config`` returns its configuration for hosts, a method and a folder for its files; ``arguments`` returns the
    arguments that start it in the foreground with a configuration file.
    """

    name: str
    file_name: str
    methods: tuple[str, ...]
    config: Callable[[Sequence[LabMachine], str, Path], str]
    arguments: Callable[[Path], tuple[str, ...]]


# Timeouts as in Debian's haproxy.cfg; health checks as in all examples of its manual
_HAPROXY: Final = """\
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


def haproxy_cfg(hosts: Sequence[LabMachine], method: str, folder: Path) -> str:
    """Return haproxy.cfg. By default, HAProxy would keep server connections for a client, and would not check hosts."""
    servers = "\n".join(f"    server {host.name} {host.address}:{HTTP_PORT} check" for host in hosts)
    return _HAPROXY.format(
        most=MOST_CONNECTIONS, user=_USER, group=_GROUP, port=HTTP_PORT, method=method, servers=servers
    )


# A client needs two connections; one process per processor, as in the package
_NGINX: Final = """\
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


def nginx_conf(hosts: Sequence[LabMachine], method: str, folder: Path) -> str:
    """Return nginx.conf. Round robin, and HTTP/1.0 with a connection per request to the hosts, are nginx's defaults."""
    return _NGINX.format(
        user=_USER,
        group=_GROUP,
        folder=folder,
        connections=2 * MOST_CONNECTIONS,
        files=4 * MOST_CONNECTIONS,
        port=HTTP_PORT,
        method="        least_conn;\n" if method == LEAST_CONNECTIONS else "",
        servers="\n".join(f"        server {host.address}:{HTTP_PORT};" for host in hosts),
    )


# By default, Pound chooses at random
_POUND: Final = """\
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
{backends}
    End
End
"""


def pound_cfg(hosts: Sequence[LabMachine], method: str, folder: Path) -> str:
    """Return pound.cfg, for Pound 4: Pound 3 has another syntax, Pound 2 lacks ``Balancer`` and ``WorkerMaxCount``."""
    backends = "\n".join(
        f"        Backend\n            Address {host.address}\n            Port {HTTP_PORT}\n        End"
        for host in hosts
    )
    return _POUND.format(user=_USER, group=_GROUP, most=MOST_CONNECTIONS, port=HTTP_PORT, backends=backends)


_HAPROXY_PROXY: Final = BalancerProgram(
    "haproxy", "haproxy.cfg", METHODS, haproxy_cfg, lambda config: ("-db", "-f", str(config))
)
_NGINX_PROXY: Final = BalancerProgram(
    "nginx", "nginx.conf", METHODS, nginx_conf,
    # Without -e, errors before the configuration is read would go to the package's log
    lambda config: ("-p", str(config.parent), "-e", "stderr", "-c", str(config)),
)  # fmt: skip
_POUND_PROXY: Final = BalancerProgram(
    "pound", "pound.cfg", (ROUND_ROBIN,), pound_cfg,
    lambda config: ("-F", "-e", "-f", str(config), "-p", str(config.parent / "pound.pid")),
)  # fmt: skip
#: One for each of PROXIES
ALL: Final[Mapping[str, BalancerProgram]] = {
    proxy.name: proxy for proxy in (_HAPROXY_PROXY, _NGINX_PROXY, _POUND_PROXY)
}


def is_there(name: str) -> bool:
    """Return whether a balancer is installed; Debian 12, for one, has no Pound."""
    return installed_programs.is_there(name)


def write_config(name: str, hosts: Sequence[LabMachine], method: str, folder: Path) -> Path:
    """Write a balancer's configuration into ``folder``, whether or not it is installed. Raises ConfigError."""
    proxy = ALL.get(name)
    if proxy is None:
        raise ConfigError(f"balancer {name!r} is not known{nearest(name, PROXIES)}")
    if method not in proxy.methods:
        raise ConfigError(f"{name} has no method {method!r}{nearest(method, proxy.methods)}")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    path = folder / proxy.file_name
    path.write_text(proxy.config(hosts, method, folder))
    return path


def start(
    programs: LabPrograms, name: str, method: str, place: PlacedMachine, hosts: Sequence[LabMachine], folder: Path
) -> LabProgram:
    """Start a balancer with its files in ``folder`` and wait until it forwards a page. Raises LbdnsError."""
    config = write_config(name, hosts, method, folder)
    command = place.command(installed_programs.path_of(name), *ALL[name].arguments(config))
    return programs.start(name, command, ready=lambda: _forwards(place))


def _forwards(place: PlacedMachine) -> bool:
    found = get(place, "/")
    return found is not None and found[0] == http.client.OK
