"""``[rate_limit]``: how many identical responses per second a network gets, so that forged queries flood no victim."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import Network, parse_network, section


@dataclass(frozen=True, slots=True)
class RateLimitConfig:
    """The limits apply to UDP queries without a valid cookie. 0 responses per second: no limit."""

    responses_per_second: int = 1000  # with the same name, type and status, to one network
    slip: int = 2  # every n-th response over the limit says "retry over TCP", the others are dropped; 0: drop all
    ipv4_prefix: int = 24  # bits of a client's address that identify its network
    ipv6_prefix: int = 56
    # Other machines can neither send from the loopback nor be flooded through it
    exempt: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


def read_rate_limit(root: TomlTable) -> RateLimitConfig:
    """Return the section; errors go to the table."""
    table = section(root, "rate_limit")
    default = RateLimitConfig()
    limit = RateLimitConfig(
        responses_per_second=table.integer("responses_per_second", default.responses_per_second, 0, 10**9),
        slip=table.integer("slip", default.slip, 0, 10),
        ipv4_prefix=table.integer("ipv4_prefix", default.ipv4_prefix, 1, 32),
        ipv6_prefix=table.integer("ipv6_prefix", default.ipv6_prefix, 1, 128),
        exempt=table.each("exempt", default.exempt, parse_network),
    )
    table.end()
    return limit
