"""Values of options as people write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from lbdns_shared.endpoint import Endpoint
from lbdns_tools.load.load_option_parsers import (
    parse_latency,
    parse_processes,
    parse_resolver,
    parse_source,
    parse_span,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_resolver, "127.0.0.1:5300", Endpoint("127.0.0.1", 5300)),
        (parse_resolver, "127.0.0.1", Endpoint("127.0.0.1", 53)),
        (parse_resolver, "[::1]:5300", Endpoint("::1", 5300)),
        (parse_latency, "p99:200ms", (99, 0.2)),
        (parse_latency, "p50:1.5s", (50, 1.5)),
        (parse_span, "100..5000", (100.0, 5000.0)),
        (parse_source, "127.0.0.2", "127.0.0.2"),
        (parse_source, "::0001", "::1"),
        (parse_processes, "auto", 0),
        (parse_processes, "3", 3),
    ],
)
def test_good(parse: Callable[[str], Any], text: str, value: Any) -> None:
    assert parse(text) == pytest.approx(value) if isinstance(value, float | tuple) else parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_resolver, "ns.hobbit:53", "the resolver must be an address, such as 127.0.0.1:53, not a name"),
        (parse_resolver, "127.0.0.1:0", "must not be 0"),
        (parse_resolver, "127.0.0.1:x", "must be a number from 0 to 65535"),
        (parse_latency, "p98:200ms", "'p98' is not one of"),
        (parse_latency, "200ms", "is not one of"),
        (parse_latency, "p99:200", "not a valid duration"),
        (parse_latency, "p99:", "write a duration"),
        (parse_latency, "p99:xms", "not a valid duration"),
        (parse_span, "5000..100", "not a valid range; write LOW..HIGH"),
        (parse_span, "0..100", "not a valid range"),
        (parse_span, "1..2..3", "not a valid range"),
        (parse_span, "100", "not a valid ramp"),
        (parse_source, "localhost", "'localhost' is not a valid address"),
        (parse_source, "127.0.0.0/8", "is not a valid address"),
        (parse_processes, "0", "neither auto nor a whole number from 1 to 1024"),
        (parse_processes, "many", "neither auto"),
    ],
)
def test_bad(parse: Callable[[str], Any], text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(text)
