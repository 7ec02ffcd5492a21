"""Balancers before the web hosts of the lab, to be compared with: HAProxy, nginx, Pound.

They are configured as their packages are, except where that would measure something else: how many connections they
take (a study has 1,401 clients), and no log of requests. None keeps connections to the web hosts open: Apache closes
them. None sticks a client to a server: the lab's clients are one address.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.errors import ConfigError
from lbdns.toml_table import nearest
from lbdns_tools import installed
from lbdns_tools.lab.addresses import Machine
from lbdns_tools.lab.asking import get
from lbdns_tools.lab.farm import HTTP_PORT, PROXIES
from lbdns_tools.lab.place import Place
from lbdns_tools.lab.programs import Programs, Running

ROUND_ROBIN, LEAST_CONNECTIONS = "roundrobin", "leastconn"
METHODS: Final = (ROUND_ROBIN, LEAST_CONNECTIONS)
#: Connections of clients that a balancer takes at the same time; HAProxy's package takes what descriptors allow,
#: nginx' 768 for clients and servers together, Pound's serves 128
MOST_CONNECTIONS: Final = 4096
_USER, _GROUP = "www-data", "www-data"


@dataclass(frozen=True, slots=True)
class Proxy:
    """One balancer: its program is called ``name``.

    ``config`` makes its configuration of the hosts, a method and a folder for its files; ``arguments`` start it in the
    foreground with that.
    """

    name: str
    file_name: str
    methods: tuple[str, ...]
    config: Callable[[Sequence[Machine], str, Path], str]
    arguments: Callable[[Path], tuple[str, ...]]


# Timeouts as in Debian's haproxy.cfg. Its health checks are on, as its manual does throughout.
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


def haproxy_cfg(hosts: Sequence[Machine], method: str, folder: Path) -> str:
    """Pure. The package's default would be to keep connections to servers for the same client, and no ``check``."""
    servers = "\n".join(f"    server {host.name} {host.address}:{HTTP_PORT} check" for host in hosts)
    return _HAPROXY.format(
        most=MOST_CONNECTIONS, user=_USER, group=_GROUP, port=HTTP_PORT, method=method, servers=servers
    )


# To each client belong two connections; one process for each processor, as the package does
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


def nginx_conf(hosts: Sequence[Machine], method: str, folder: Path) -> str:
    """Pure. HTTP/1.0 and a connection for each request to the servers are nginx' own defaults, as is round robin."""
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


# Pound's own default is to choose by chance
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


def pound_cfg(hosts: Sequence[Machine], method: str, folder: Path) -> str:
    """Pure. For Pound 4: 3 has another language altogether, 2 no ``Balancer`` and no workers by name."""
    backends = "\n".join(
        f"        Backend\n            Address {host.address}\n            Port {HTTP_PORT}\n        End"
        for host in hosts
    )
    return _POUND.format(user=_USER, group=_GROUP, most=MOST_CONNECTIONS, port=HTTP_PORT, backends=backends)


_HAPROXY_PROXY: Final = Proxy("haproxy", "haproxy.cfg", METHODS, haproxy_cfg, lambda config: ("-db", "-f", str(config)))
_NGINX_PROXY: Final = Proxy(
    "nginx", "nginx.conf", METHODS, nginx_conf,
    # Before the configuration is read, errors would go to the package's own log
    lambda config: ("-p", str(config.parent), "-e", "stderr", "-c", str(config)),
)  # fmt: skip
_POUND_PROXY: Final = Proxy(
    "pound", "pound.cfg", (ROUND_ROBIN,), pound_cfg,
    lambda config: ("-F", "-e", "-f", str(config), "-p", str(config.parent / "pound.pid")),
)  # fmt: skip
#: One for each of PROXIES
ALL: Final[Mapping[str, Proxy]] = {proxy.name: proxy for proxy in (_HAPROXY_PROXY, _NGINX_PROXY, _POUND_PROXY)}


def is_there(name: str) -> bool:
    """Whether a balancer is installed. Debian 12 has no Pound, say."""
    return installed.is_there(name)


def write_config(name: str, hosts: Sequence[Machine], method: str, folder: Path) -> Path:
    """Write a balancer's configuration into ``folder``, whether or not it is installed. Raises ConfigError."""
    proxy = ALL.get(name)
    if proxy is None:
        raise ConfigError(f"balancer {name!r} is not known{nearest(name, PROXIES)}")
    if method not in proxy.methods:
        raise ConfigError(f"{name}: {method!r} is no method of it{nearest(method, proxy.methods)}")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    path = folder / proxy.file_name
    path.write_text(proxy.config(hosts, method, folder))
    return path


def start(programs: Programs, name: str, method: str, place: Place, hosts: Sequence[Machine], folder: Path) -> Running:
    """Start a balancer, its files in ``folder``, and wait until a page comes through it. Raises LbdnsError."""
    config = write_config(name, hosts, method, folder)
    command = place.command(installed.path_of(name), *ALL[name].arguments(config))
    return programs.start(name, command, ready=lambda: _passes_on(place))


def _passes_on(place: Place) -> bool:
    found = get(place, "/")
    return found is not None and found[0] == http.client.OK
