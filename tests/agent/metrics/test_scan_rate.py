from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.metrics import scan_rate
from tests.agent.fixtures import host_with_kernel, proc_file


@pytest.mark.parametrize(
    ("kernel", "scanned"),
    [
        ("2.6.32", 128 + 9871200 + 23410882 + 120334 + 310992),  # a counter a zone
        ("3.10", 8200123 + 41009823 + 6021 + 40112),  # beside pgscan_direct_throttle, which counts processes
        ("4.19", 6409221 + 50211),
        ("5.10", 7391200 + 60120),  # beside pgscan_anon and pgscan_file, the same pages once more
        ("6.1", 8391200 + 70120),
        ("6.18", 0),
    ],
)
def test_parse(kernel: str, scanned: int) -> None:
    assert scan_rate.parse(proc_file(kernel, "vmstat")) == scanned
    assert scan_rate.read(host_with_kernel(kernel)) == ("host", scanned)


def test_scanning_for_huge_pages_counts_and_proactive_scanning_does_not() -> None:
    text = b"x 1\npgscan_kswapd 1\npgscan_direct 10\npgscan_khugepaged 100\npgscan_proactive 1000\n"
    assert scan_rate.parse(text) == 111


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, ("host", 5), {}),
        (("host", 100), ("host", 350), {"scan_rate": 125.0}),
        (("host", 100), ("host", 90), {"scan_rate": 0.0}),
        (("host", 100), ("cgroup", 350), {}),
    ],
)
def test_values(before: tuple[str, int] | None, now: tuple[str, int], expected: dict[str, float]) -> None:
    assert scan_rate.values(before, now, 2.0) == expected


@given(st.binary() | st.text("pgscan_kwdiret 0123456789\n").map(str.encode))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert scan_rate.parse(text) >= 0
