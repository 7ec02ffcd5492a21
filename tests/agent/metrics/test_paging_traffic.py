from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.metrics import paging_traffic
from lbdns_agent.metrics.paging_traffic import PagedBytes
from tests.agent.fixtures import host_with_kernel, proc_file


@pytest.mark.parametrize(
    ("kernel", "read", "written"),
    [
        ("2.6.32", 88123345, 193342210),
        ("3.10", 120934451, 390122098),
        ("4.19", 41209344, 220934122),
        ("5.10", 41209344, 220934122),
        ("6.1", 41209344, 220934122),
        ("6.18", 8879205, 1535360),
    ],
)
def test_parse(kernel: str, read: int, written: int) -> None:
    paged = PagedBytes(read * 1024, written * 1024)
    assert paging_traffic.parse(proc_file(kernel, "vmstat")) == paged
    assert paging_traffic.read(host_with_kernel(kernel)) == paged


@pytest.mark.parametrize("text", [b"", b"\npgpgin 5\n", b"\npgpgout 5\n", b"\npgpgin 5\npgpgout"])
def test_both_must_be_there(text: bytes) -> None:
    with pytest.raises(ValueError, match="must contain pgpgin, followed by pgpgout"):
        paging_traffic.parse(text)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, PagedBytes(5, 5), {}),
        (PagedBytes(1000, 400), PagedBytes(3000, 400), {"page_in": 1000.0, "page_out": 0.0}),
        (PagedBytes(1000, 400), PagedBytes(0, 500), {"page_in": 0.0, "page_out": 50.0}),
    ],
)
def test_values(before: PagedBytes | None, now: PagedBytes, expected: dict[str, float]) -> None:
    assert paging_traffic.values(before, now, 2.0) == expected


@given(st.binary() | st.text("pgpginout 0123456789\n").map(str.encode))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert paging_traffic.parse(text).read >= 0
