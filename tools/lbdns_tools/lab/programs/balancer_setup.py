"""Describes how a balancer stands in front of the lab's web hosts, and what each balancer supports. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError
from lbdns_tools.lab.farm.lab_farm import PROXIES

ROUND_ROBIN, LEAST_CONNECTIONS = "roundrobin", "leastconn"
METHODS: Final = (ROUND_ROBIN, LEAST_CONNECTIONS)
#: Where TLS ends: nowhere, at the balancer, or at the hosts, to which the balancer passes the bytes on
PLAIN, TERMINATED, PASSED_THROUGH = "", "terminated", "passed through"


@dataclass(frozen=True, slots=True)
class BalancerSetup:
    """A balancer in front of all web hosts.

    ``most_per_host`` is the number of connections that a host gets at a time (0 means no limit); other requests wait in
    the balancer. If ``keeps_connections`` is set, the balancer reuses its connections to the hosts, over HTTP/1.1.
    ``tls`` is one of PLAIN, TERMINATED and PASSED_THROUGH.
    """

    program: str
    method: str = ROUND_ROBIN
    most_per_host: int = 0
    keeps_connections: bool = False
    tls: str = PLAIN


#: For each balancer, the values of BalancerSetup that its configuration in the lab supports
_SUPPORTED: Final[Mapping[str, Mapping[str, tuple[object, ...]]]] = {
    "haproxy": {"method": METHODS, "keeps_connections": (False,), "tls": (PLAIN, TERMINATED, PASSED_THROUGH)},
    "nginx": {"method": METHODS, "most_per_host": (0,), "tls": (PLAIN, TERMINATED)},
    "pound": {
        "method": (ROUND_ROBIN,), "most_per_host": (0,), "keeps_connections": (False,), "tls": (PLAIN, TERMINATED),
    },
}  # fmt: skip


def check_setup(setup: BalancerSetup) -> None:
    """Raise ConfigError if the lab has no such balancer, or if its configuration does not support the setup."""
    if setup.program not in PROXIES:
        raise ConfigError(f"unknown balancer {setup.program!r}{nearest(setup.program, PROXIES)}")
    for name, values in _SUPPORTED[setup.program].items():
        value = getattr(setup, name)
        if value not in values:
            raise ConfigError(f"{setup.program}: {name} must be one of {', '.join(map(repr, values))}, not {value!r}")
