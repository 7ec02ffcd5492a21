"""Checks that reading the written TOML returns the original values."""

from __future__ import annotations

import datetime
import tomllib
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.calibrate.toml_writer import to_toml

ROOT = Path(__file__).parents[3]

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), TEXT, st.lists(st.integers(0, 9))
)
INLINE = st.dictionaries(TEXT, PLAIN, max_size=3)
TABLE = st.dictionaries(TEXT, st.one_of(PLAIN, INLINE), max_size=4)
FILE = st.dictionaries(TEXT, st.one_of(PLAIN, TABLE, st.lists(TABLE, min_size=1, max_size=3)), max_size=5)


@given(FILE)
def test_any_values(values: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(values)) == values


def test_the_configuration_with_every_option() -> None:
    values = tomllib.loads((ROOT / "zones" / "lbdns.toml").read_text())
    assert tomllib.loads(to_toml(values)) == values


def test_dates() -> None:
    values = {"day": datetime.date(1999, 7, 1), "table": {"empty": {}, "none": []}}
    assert tomllib.loads(to_toml(values)) == values
