"""Tests of formatting a number with its noun."""

from __future__ import annotations

import pytest

from lbdns.text.counts import counted


@pytest.mark.parametrize(("number", "text"), [(0, "0 zones"), (1, "1 zone"), (2, "2 zones")])
def test_the_noun_agrees_with_the_number(number: int, text: str) -> None:
    assert counted(number, "zone") == text
