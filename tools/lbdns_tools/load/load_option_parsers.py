"""Parse option values of ``lbdns-load``: resolver, source address, latency limit, range, processes. Pure."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from lbdns.text.duration import parse_duration
from lbdns_shared.endpoint import DNS_PORT, Endpoint, parse_endpoint
from lbdns_tools.load.capacity_search import PERCENTILES
from lbdns_tools.load.sweep_parsers import parse_ramp

MAX_PROCESSES: Final = 1024


def parse_resolver(text: str) -> Endpoint:
    """Parse the address of a DNS server. Raises ValueError."""
    endpoint = parse_endpoint(text, DNS_PORT)
    if not endpoint.is_address:
        raise ValueError(f"{text!r}: the resolver must be an address, such as 127.0.0.1:{endpoint.port}, not a name")
    if not endpoint.port:
        raise ValueError(f"{text!r}: the port must not be 0")
    return endpoint


def parse_source(text: str) -> str:
    """Parse an address of this machine. Raises ValueError."""
    try:
        return str(ip_address(text.strip()))
    except ValueError:
        raise ValueError(
            f"{text!r} is not a valid address; write an address of this machine, such as 127.0.0.2"
        ) from None


def parse_latency(text: str) -> tuple[int, float]:
    """Parse a limit such as ``p99:200ms``; return the percentile and the limit in seconds. Raises ValueError."""
    name, _, limit = text.strip().partition(":")
    if name not in {f"p{percentile}" for percentile in PERCENTILES}:
        known = ", ".join(f"p{percentile}" for percentile in PERCENTILES)
        raise ValueError(f"{text!r}: {name!r} is not one of {known}; write, for example, p99:200ms")
    number = limit.removesuffix("ms")
    if number == limit:
        return int(name[1:]), parse_duration(limit)
    return int(name[1:]), parse_duration(f"{number}s") / 1000


def parse_span(text: str) -> tuple[float, float]:
    """Parse a range ``LOW..HIGH`` above 0. Raises ValueError."""
    ends = parse_ramp(text)
    if len(ends) != 2 or not 0 < ends[0] < ends[1]:
        raise ValueError(f"{text!r} is not a valid range; write LOW..HIGH, such as 100..5000, both above 0")
    return ends[0], ends[1]


def parse_processes(text: str) -> int:
    """Parse a number of processes; auto is 0. Raises ValueError."""
    if text.strip() == "auto":
        return 0
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_PROCESSES:
        raise ValueError(f"{text!r} is neither auto nor a whole number from 1 to {MAX_PROCESSES}")
    return int(text)
