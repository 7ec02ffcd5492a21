"""Read ``[rate_limit]`` and ``[cookies]`` (protection from forged queries) and ``[explain]`` (permitted clients)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lbdns.config.value_readers import LOOPBACK, Network, each, integer, parse_network, secret_path


@dataclass(frozen=True, slots=True)
class RateLimitConfig:
    """Limits on the rate of identical responses to a network, which prevent forged queries from flooding a victim.

    The limits apply to UDP queries without a valid cookie; ``responses_per_second = 0`` disables them.
    """

    responses_per_second: int = integer(1000, 0, 10**9)  # with the same name, type and status, to one network
    slip: int = integer(2, 0, 10)  # every n-th response over the limit says "retry over TCP"; 0: drop all
    ipv4_prefix: int = integer(24, 1, 32)  # bits of a client's address that identify its network
    ipv6_prefix: int = integer(56, 1, 128)
    # Loopback addresses by default: other machines can neither send from them nor be flooded through them
    exempt: tuple[Network, ...] = each(LOOPBACK, parse_network)


@dataclass(frozen=True, slots=True)
class CookiesConfig:
    """DNS cookies (RFC 7873), which prove that a client owns its source address."""

    secret_file: Path | None = secret_path()  # secrets that servers behind one address share; None: create one
    udp_without: int = integer(512, 512, 1232)  # bytes; longer UDP answers require a cookie, against amplification


@dataclass(frozen=True, slots=True)
class ExplainConfig:
    #: Clients that may query ``explain.NAME TXT``; for all other clients, that name does not exist
    allow: tuple[Network, ...] = each(LOOPBACK, parse_network)
