"""``[rate_limit]``, ``[cookies]`` and ``[explain]``: limits against forged queries, and who may query explanations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lbdns.config.value_readers import LOOPBACK, Network, each, integer, optional_path, parse_network


@dataclass(frozen=True, slots=True)
class RateLimitConfig:
    """How many identical responses per second a network gets, so that forged queries flood no victim.

    The limits apply to UDP queries without a valid cookie. 0 responses per second: no limit.
    """

    responses_per_second: int = integer(1000, 0, 10**9)  # with the same name, type and status, to one network
    slip: int = integer(2, 0, 10)  # every n-th response over the limit says "retry over TCP"; 0: drop all
    ipv4_prefix: int = integer(24, 1, 32)  # bits of a client's address that identify its network
    ipv6_prefix: int = integer(56, 1, 128)
    # Other machines can neither send from the loopback nor be flooded through it
    exempt: tuple[Network, ...] = each(LOOPBACK, parse_network)


@dataclass(frozen=True, slots=True)
class CookiesConfig:
    """DNS cookies (RFC 7873), which prove that a client owns its source address."""

    secret_file: Path | None = optional_path()  # secrets that servers behind one address share; None: create one
    udp_without: int = integer(512, 512, 1232)  # bytes; longer UDP answers require a cookie: no amplification


@dataclass(frozen=True, slots=True)
class ExplainConfig:
    #: Clients that may query ``explain.NAME TXT``; for all others that name does not exist
    allow: tuple[Network, ...] = each(LOOPBACK, parse_network)
