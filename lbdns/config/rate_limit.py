"""``[rate_limit]``: how often one network is given alike responses, so that forged queries flood nobody."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from lbdns.config.reading import Network, parse_network, section
from lbdns.toml_table import Table


@dataclass(frozen=True, slots=True)
class RateLimitConfig:
    """Limits count for UDP without a valid cookie. 0 responses per second: no limit at all."""

    responses_per_second: int = 1000  # alike ones, to one network
    slip: int = 2  # of those over the limit every so manieth says "ask over TCP", the others are dropped; 0: all
    ipv4_prefix: int = 24  # bits: one network, as far as counting goes
    ipv6_prefix: int = 56
    # Nobody can send to the loopback from elsewhere, nor be flooded through it
    exempt: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


def read_rate_limit(root: Table) -> RateLimitConfig:
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
