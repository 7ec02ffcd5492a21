from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.metrics import free_memory
from lbdns_agent.metrics.free_memory import FreeMemory
from tests.agent.fixtures import host_with_kernel, proc_file


@pytest.mark.parametrize(
    ("kernel", "memory", "swap"),
    [
        ("2.6.32", 167492, 2041220),
        ("3.10", 240856, 0),  # a host without swap space
        ("4.19", 796852, 1048572),
        ("5.10", 301220, 1048572),
        ("6.1", 1201220, 1048572),
        ("6.18", 23971008, 0),
    ],
)
def test_parse(kernel: str, memory: int, swap: int) -> None:
    assert free_memory.parse(proc_file(kernel, "meminfo")) == FreeMemory(memory * 1024, swap * 1024)
    read = free_memory.read(host_with_kernel(kernel))
    assert free_memory.SENSOR.values(None, read, 0.0) == {"mem_free": memory * 1024.0, "swap_free": swap * 1024.0}


def test_read_psutil() -> None:
    module = SimpleNamespace(
        virtual_memory=lambda: SimpleNamespace(total=8000, available=2000, free=500),
        swap_memory=lambda: SimpleNamespace(total=4000, free=3000),
    )
    assert free_memory.read_psutil(module) == FreeMemory(500, 3000)


@pytest.mark.parametrize("text", [b"", b"\nMemFree: 5 kB\n", b"\nSwapFree: 5 kB\n", b"\nMemFree: 5 kB\nSwapFree:"])
def test_both_must_be_there(text: bytes) -> None:
    with pytest.raises(ValueError, match="must contain MemFree and SwapFree"):
        free_memory.parse(text)


@given(st.binary() | st.text("\nMemSwapFree: 0123456789").map(str.encode))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert free_memory.parse(text).memory >= 0
