"""The machines that exist: their names, addresses, root file systems and services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lbdns_packaging.root_file_systems import RootFileSystem

#: Addresses reserved for documentation (RFC 5737); the tutorial has the same. They exist in a network namespace only.
NETWORK: Final = "192.0.2.0/24"
GATEWAY: Final = "192.0.2.254"
#: What an administrator's machine has before lbdns is installed
_BASE: Final = (
    "systemd-sysv", "iproute2", "openssh-server", "openssh-client", "python3", "python3-msgpack", "adduser", "passwd",
    "curl", "bind9-dnsutils",
)  # fmt: skip
#: The services of which a machine runs only those in its plan
OPTIONAL_SERVICES: Final = ("apache2", "nginx", "named")

SMALL: Final = RootFileSystem("bookworm", (*_BASE, "apache2"))
DEBIAN_11: Final = RootFileSystem("bullseye", (*_BASE, "apache2"))
DEBIAN_12: Final = RootFileSystem("bookworm", (*_BASE, "nginx-light", "bind9"))
DEBIAN_13: Final = RootFileSystem("trixie", (*_BASE, "apache2"))

_NGINX_STATUS: Final = """\
server {
    listen 80 default_server;
    root /var/www/html;
    location = /nginx_status { stub_status; access_log off; allow 127.0.0.1; deny all; }
}
"""
_MODULES: Final = "/usr/lib/apache2/modules"
#: nginx does not report how many requests it can serve, so the agent's configuration says it
NGINX_FILES: Final = {
    "etc/nginx/sites-enabled/default": _NGINX_STATUS,
    "etc/lbdns/agent.conf": "[web-server]\nnginx = http://127.0.0.1/nginx_status\nworkers = 20\n",
}
_EVENT: Final = {
    "etc/apache2/mods-enabled/mpm_event.conf": "StartServers 2\nThreadsPerChild 10\nMaxRequestWorkers 20\n"
}
#: One server process per connection, as Apache ran before Debian 9
_PREFORK: Final = {
    "etc/apache2/mods-enabled/mpm_event.load": None,
    "etc/apache2/mods-enabled/mpm_event.conf": None,
    "etc/apache2/mods-enabled/mpm_prefork.load": f"LoadModule mpm_prefork_module {_MODULES}/mod_mpm_prefork.so\n",
    "etc/apache2/mods-enabled/mpm_prefork.conf": "StartServers 5\nMaxRequestWorkers 20\n",
}
_NAMED: Final = """\
options {
    directory "/var/cache/bind";
    recursion yes;
    allow-query { any; };
    allow-recursion { any; };
    dnssec-validation no;
    listen-on { any; };
    listen-on-v6 { none; };
};
zone "net" { type primary; file "/etc/bind/net.zone"; };
"""
_NET_ZONE: Final = """\
$ORIGIN net.
$TTL 1h
@   IN SOA ns.parent hostmaster.parent 1 1h 15m 1w 5m
    IN NS  ns.parent
ns.parent IN A 192.0.2.5
"""


@dataclass(frozen=True)
class MachinePlan:
    """A machine before its first boot.

    ``files`` maps paths below the root to contents. A file whose content is None is removed. ``resolver`` is the
    address in resolv.conf.
    """

    name: str
    address: str
    root: RootFileSystem
    services: tuple[str, ...] = ()  # of OPTIONAL_SERVICES
    files: Mapping[str, str | None] = field(default_factory=dict)
    resolver: str = ""
    is_web_server: bool = False


_NS: Final = "192.0.2.53"
#: The machines that get the server's package: the tutorial's, and one with Debian 13
NAME_SERVERS: Final = ("ns", "ns-trixie")
_NS_TRIXIE: Final = MachinePlan(NAME_SERVERS[1], "192.0.2.54", DEBIAN_13)
_PARENT: Final = "192.0.2.5"

#: One name server, one web server and a client, whose resolver is the name server
QUICK: Final = (
    MachinePlan("ns", _NS, SMALL),
    MachinePlan("gandalf", "192.0.2.1", SMALL, ("apache2",), is_web_server=True),
    MachinePlan("client", "192.0.2.100", SMALL, resolver=_NS),
)
#: Name servers to upgrade, and a client
UPGRADES: Final = (QUICK[0], _NS_TRIXIE, QUICK[2])
#: The tutorial's machines, a parent name server that also resolves for the client, and a name server with Debian 13.
#: The web servers have three releases of Debian.
FULL: Final = (
    MachinePlan("ns", _NS, DEBIAN_12),
    MachinePlan("parent", _PARENT, DEBIAN_12, ("named",),
                {"etc/bind/named.conf": _NAMED, "etc/bind/net.zone": _NET_ZONE}),
    MachinePlan("gandalf", "192.0.2.1", DEBIAN_11, ("apache2",), _PREFORK, is_web_server=True),
    MachinePlan("frodo", "192.0.2.2", DEBIAN_12, ("nginx",), NGINX_FILES, is_web_server=True),
    MachinePlan("bilbo", "192.0.2.3", DEBIAN_13, ("apache2",), _EVENT, is_web_server=True),
    MachinePlan("client", "192.0.2.100", DEBIAN_12, resolver=_PARENT),
    _NS_TRIXIE,
)  # fmt: skip


def server_package(plan: MachinePlan, version: str) -> str:
    """Return the file name of the server's package for the machine's Debian release."""
    number = {"bookworm": 12, "trixie": 13}[plan.root.release]
    return f"lbdns_{version}-1~deb{number}_amd64.deb"
