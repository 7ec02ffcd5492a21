"""Values of options as people write them: seconds, a resolver, a range, a limit of latency. Pure."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

from lbdns.duration import parse_duration
from lbdns.endpoint import DNS_PORT, Endpoint, parse_endpoint
from lbdns_tools.load.search import PERCENTILES
from lbdns_tools.load.sweep import parse_ramp

MAX_PROCESSES: Final = 1024


def parse_seconds(text: str) -> float:
    """``90``, ``1.5``, or a span of time such as ``90s``, ``15min``. Raises ValueError."""
    text = text.strip()
    return parse_duration(f"{text}s" if re.fullmatch(r"\d+(\.\d+)?", text) else text)


def parse_resolver(text: str) -> Endpoint:
    """The address of a DNS server. Raises ValueError."""
    endpoint = parse_endpoint(text, DNS_PORT)
    if not endpoint.is_address:
        raise ValueError(f"{text!r}: a resolver needs an address, such as 127.0.0.1:{endpoint.port}, not a name")
    if not endpoint.port:
        raise ValueError(f"{text!r}: port 0 can't be asked")
    return endpoint


def parse_source(text: str) -> str:
    """An address of this machine. Raises ValueError."""
    try:
        return str(ip_address(text.strip()))
    except ValueError:
        raise ValueError(f"{text!r} is no address; write one of this machine, such as 127.0.0.2") from None


def parse_latency(text: str) -> tuple[int, float]:
    """``p99:200ms``: a percentile and its limit in seconds. Raises ValueError."""
    name, _, limit = text.strip().partition(":")
    if name not in {f"p{percentile}" for percentile in PERCENTILES}:
        known = ", ".join(f"p{percentile}" for percentile in PERCENTILES)
        raise ValueError(f"{text!r}: {name!r} is no percentile that is kept; write such as p99:200ms, with {known}")
    number = limit.removesuffix("ms")
    if number == limit:
        return int(name[1:]), parse_duration(limit)
    return int(name[1:]), parse_duration(f"{number}s") / 1000


def parse_span(text: str) -> tuple[float, float]:
    """``LOW..HIGH``, above 0. Raises ValueError."""
    ends = parse_ramp(text)
    if len(ends) != 2 or not 0 < ends[0] < ends[1]:
        raise ValueError(f"{text!r} is no range; write LOW..HIGH, such as 100..5000, from above 0")
    return ends[0], ends[1]


def parse_processes(text: str) -> int:
    """0 for auto. Raises ValueError."""
    if text.strip() == "auto":
        return 0
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_PROCESSES:
        raise ValueError(f"{text!r} is neither auto nor a whole number from 1 to {MAX_PROCESSES}")
    return int(text)
