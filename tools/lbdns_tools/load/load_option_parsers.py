"""Parsers for option values of ``lbdns-load``, such as sweeps (``20..100/10``), ramps and latency limits. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from ipaddress import ip_address
from typing import Final

from lbdns.text.times import parse_duration
from lbdns_shared.endpoint import DNS_PORT, Endpoint, parse_endpoint
from lbdns_tools.load.capacity_search import PERCENTILES

MAX_POINTS: Final = 1000  # almost three hours at 10 s each
MAX_CLIENTS: Final = 100_000  # more than the ports of one address
MAX_RATE: Final = 1e6  # requests/s
MAX_PROCESSES: Final = 1024

_NUMBER: Final = r"\d+(?:\.\d+)?"
_ITEM: Final = re.compile(rf"({_NUMBER})(?:\.\.({_NUMBER})(?:/({_NUMBER}))?)?\Z", re.ASCII)
HOW: Final = "write a number (20), a list (20,40) or FIRST..LAST/STEP (20..100/10)"


def parse_counts(text: str) -> tuple[int, ...]:
    """Parse one or more client or connection counts, each a whole number of at least 1. Raises ValueError."""
    points = _points(text)
    for point in points:
        if point.denominator != 1 or not 1 <= point <= MAX_CLIENTS:
            raise ValueError(f"{text!r}: {float(point):g} is not a whole number from 1 to {MAX_CLIENTS}")
    return tuple(map(int, points))


def parse_rates(text: str) -> tuple[float, ...]:
    """Parse rates above 0, in requests/s. Raises ValueError."""
    points = _points(text)
    for point in points:
        if not 0 < point <= MAX_RATE:
            raise ValueError(f"{text!r}: the rate {float(point):g} must be above 0 and at most {MAX_RATE:g}")
    return tuple(map(float, points))


def _points(text: str) -> tuple[Fraction, ...]:
    """Parse a list of numbers and sweeps, and return the numbers in the given order, without duplicates. The
    calculation is exact, so 0.1..1/0.1 yields ten numbers."""
    found: dict[Fraction, None] = {}
    for item in text.split(","):
        for point in _sweep(text, item.strip()):
            found[point] = None
            if len(found) > MAX_POINTS:
                raise ValueError(f"{text!r} yields more than {MAX_POINTS} values; use a larger step")
    return tuple(found)


def _sweep(text: str, item: str) -> Iterator[Fraction]:
    match = _ITEM.match(item)
    if not match:
        raise ValueError(
            f"{item!r} is neither a number nor a sweep of numbers; {HOW}" if item else f"{text!r}: a number is missing"
        )
    point = Fraction(match[1])
    if match[2] is None:
        yield point
        return
    if match[3] is None:
        raise ValueError(f"{item!r} has no step; {HOW}")
    last, step = Fraction(match[2]), Fraction(match[3])
    if not step:
        raise ValueError(f"{item!r}: the step must be greater than 0; {HOW}")
    if last < point:
        raise ValueError(f"{item!r}: the last value must not be less than the first; {HOW}")
    while point <= last:
        yield point
        point += step


def parse_ramp(text: str) -> tuple[float, ...]:
    """Parse a ramp, ``A..B`` or ``A..B..C``, in requests/s. At least one rate must be above 0. Raises ValueError."""
    corners = text.strip().split("..")
    if len(corners) < 2 or not all(re.fullmatch(_NUMBER, corner, re.ASCII) for corner in corners):
        raise ValueError(f"{text!r} is not a valid ramp; write, for example, 10..200 or 10..200..10")
    rates = tuple(map(float, corners))
    if not 0 < max(rates) <= MAX_RATE:
        raise ValueError(f"{text!r}: the highest rate must be above 0 and at most {MAX_RATE:g}")
    return rates


def parse_span(text: str) -> tuple[float, float]:
    """Parse a range ``LOW..HIGH``, where 0 < LOW < HIGH. Raises ValueError."""
    ends = parse_ramp(text)
    if len(ends) != 2 or not 0 < ends[0] < ends[1]:
        raise ValueError(f"{text!r} is not a valid range; write LOW..HIGH, for example 100..5000, with 0 < LOW < HIGH")
    return ends[0], ends[1]


def parse_resolver(text: str) -> Endpoint:
    """Parse the address and port of a DNS server. Raises ValueError."""
    endpoint = parse_endpoint(text, DNS_PORT)
    if not endpoint.is_address:
        raise ValueError(f"{text!r}: the resolver must be an IP address, for example 127.0.0.1:{endpoint.port}")
    if not endpoint.port:
        raise ValueError(f"{text!r}: the resolver's port must not be 0")
    return endpoint


def parse_source(text: str) -> str:
    """Parse a source IP address. Raises ValueError."""
    try:
        return str(ip_address(text.strip()))
    except ValueError:
        raise ValueError(
            f"{text!r} is not a valid address; specify an address of this machine, for example 127.0.0.2"
        ) from None


def parse_latency(text: str) -> tuple[int, float]:
    """Parse a latency limit such as ``p99:200ms`` into the percentile and the limit in seconds. Raises ValueError."""
    name, _, limit = text.strip().partition(":")
    known = {f"p{percentile}": percentile for percentile in PERCENTILES}
    if name not in known:
        raise ValueError(f"{text!r}: {name!r} is not one of {', '.join(known)}; write, for example, p99:200ms")
    if limit.endswith("ms"):
        return known[name], parse_duration(f"{limit[:-2]}s") / 1000
    return known[name], parse_duration(limit)


def parse_processes(text: str) -> int:
    """Parse a number of processes, and return 0 for ``auto``. Raises ValueError."""
    if text.strip() == "auto":
        return 0
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_PROCESSES:
        raise ValueError(f"{text!r} is neither 'auto' nor a whole number from 1 to {MAX_PROCESSES}")
    return int(text)
