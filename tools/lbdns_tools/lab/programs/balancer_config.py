"""Writes the text of the balancers' configuration files. Pure.

The balancers use the default settings of the Debian packages, except for settings that distort the measurements. The
balancers' connection limit is raised, because one study has 1,401 clients. Requests are not logged. Unless a setup says
otherwise, balancers do not reuse connections to the web hosts, because Apache closes each connection after one request.
Session affinity is disabled, because all clients on a client host share that host's addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from lbdns_tools.lab.farm.lab_farm import HTTP_PORT, HTTPS_PORT, LabMachine
from lbdns_tools.lab.programs.balancer_setup import LEAST_CONNECTIONS, PASSED_THROUGH, TERMINATED, BalancerSetup

#: The limit of a balancer's concurrent client connections. In the packages, HAProxy's limit is the number of file
#: descriptors, nginx's is 768 for clients and servers together, and Pound's is 128
MOST_CONNECTIONS: Final = 4096
#: Idle connections to all hosts that each of nginx's processes keeps; the hosts have 150 workers in total
KEPT_CONNECTIONS: Final = 16
_USER, _GROUP = "www-data", "www-data"
# By default, HAProxy would keep a client's server connections open and would not check hosts. The timeouts are those of
# Debian's haproxy.cfg; the health checks are those of all examples in HAProxy's manual. Without "timeout queue",
# requests that wait for a host with a connection limit would fail after 5 s
_HAPROXY: Final = """\
global
    maxconn {most}
    user {user}
    group {group}

defaults
    mode {mode}
{options}    timeout connect 5s
    timeout client 50s
    timeout server 50s
    timeout queue 50s

frontend www
    bind :::{port} v4v6{secure}
    default_backend web

backend web
    balance {method}
{servers}
"""
# Each client needs two connections. nginx runs one process per processor, as in the package. By default, it uses round
# robin, and HTTP/1.0 with one connection per request to the hosts
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
{upstream}
    }}

    server {{
        listen {port}{ssl} backlog=4096;
        listen [::]:{port}{ssl} backlog=4096;
{certificate}
        location / {{
            proxy_pass http://web;
            proxy_set_header Host $host;
{proxy}        }}
    }}
}}
"""
_NGINX_CERTIFICATE: Final = """\
        ssl_certificate {path};
        ssl_certificate_key {path};
"""
_NGINX_KEPT: Final = """\
            proxy_http_version 1.1;
            proxy_set_header Connection "";
"""
# For Pound 4: Pound 3 has another syntax, Pound 2 lacks Balancer and WorkerMaxCount. Pound chooses at random by default
_POUND: Final = """\
User "{user}"
Group "{group}"
Daemon 0
LogLevel 0
WorkerMaxCount {most}
Balancer iwrr

{listener}
    Address ::
    Port {port}
{certificate}    Service
{servers}
    End
End
"""
_POUND_HOST: Final = """\
        Backend
            Address {address}
            Port {port}
        End"""


def _port(setup: BalancerSetup) -> int:
    return HTTPS_PORT if setup.tls else HTTP_PORT


def haproxy(setup: BalancerSetup, hosts: Sequence[LabMachine], folder: Path, certificate: Path | None) -> str:
    """Return haproxy.cfg. In TCP mode (TLS is passed through), HAProxy connects to the hosts' HTTPS ports."""
    is_passed = setup.tls == PASSED_THROUGH
    limit = f" maxconn {setup.most_per_host}" if setup.most_per_host else ""
    port = HTTPS_PORT if is_passed else HTTP_PORT
    return _HAPROXY.format(
        most=MOST_CONNECTIONS, user=_USER, group=_GROUP, port=_port(setup), method=setup.method,
        mode="tcp" if is_passed else "http",
        options="" if is_passed else "    option http-server-close\n",
        secure=f" ssl crt {certificate}" if setup.tls == TERMINATED else "",
        servers="\n".join(f"    server {host.name} {host.address}:{port} check{limit}" for host in hosts),
    )  # fmt: skip


def nginx(setup: BalancerSetup, hosts: Sequence[LabMachine], folder: Path, certificate: Path | None) -> str:
    """Return nginx.conf, with nginx's own files in ``folder``."""
    upstream = ["        least_conn;"] if setup.method == LEAST_CONNECTIONS else []
    upstream += [f"        server {host.address}:{HTTP_PORT};" for host in hosts]
    upstream += [f"        keepalive {KEPT_CONNECTIONS};"] if setup.keeps_connections else []
    return _NGINX.format(
        user=_USER, group=_GROUP, folder=folder, connections=2 * MOST_CONNECTIONS, files=4 * MOST_CONNECTIONS,
        port=_port(setup), upstream="\n".join(upstream),
        ssl=" ssl" if setup.tls else "",
        certificate=_NGINX_CERTIFICATE.format(path=certificate) if setup.tls else "",
        proxy=_NGINX_KEPT if setup.keeps_connections else "",
    )  # fmt: skip


def pound(setup: BalancerSetup, hosts: Sequence[LabMachine], folder: Path, certificate: Path | None) -> str:
    """Return pound.cfg."""
    return _POUND.format(
        user=_USER, group=_GROUP, most=MOST_CONNECTIONS, port=_port(setup),
        listener="ListenHTTPS" if setup.tls else "ListenHTTP",
        certificate=f'    Cert "{certificate}"\n' if setup.tls else "",
        servers="\n".join(_POUND_HOST.format(address=host.address, port=HTTP_PORT) for host in hosts),
    )  # fmt: skip


#: For each balancer, the function that returns its configuration for a setup, the web hosts, a folder for the
#: balancer's files, and the file with the certificate and its key (only needed with TLS)
CONFIGURATIONS: Final[Mapping[str, Callable[[BalancerSetup, Sequence[LabMachine], Path, Path | None], str]]] = {
    "haproxy": haproxy,
    "nginx": nginx,
    "pound": pound,
}
