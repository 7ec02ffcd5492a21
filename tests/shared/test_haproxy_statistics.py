"""The parser of HAProxy's table of statistics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_shared.haproxy_statistics import parse_statistics

TABLE = '# pxname,svname,scur,\nweb,FRONTEND,3,\nweb,"a,b",,\n\n'


def test_rows() -> None:
    assert parse_statistics(TABLE) == [
        {"pxname": "web", "svname": "FRONTEND", "scur": "3", "": ""},
        {"pxname": "web", "svname": "a,b", "scur": "", "": ""},
    ]


def test_the_csv_page_ends_its_lines_with_carriage_returns_too() -> None:
    assert parse_statistics(TABLE.replace("\n", "\r\n")) == parse_statistics(TABLE)


def test_a_short_row_lacks_columns() -> None:
    assert parse_statistics("# pxname,svname\nweb\n") == [{"pxname": "web"}]


@pytest.mark.parametrize("text", ["", "<html>", "pxname,svname\nweb,x\n", f"# pxname,svname\n{'x' * 200_000}\n"])
def test_what_is_no_table(text: str) -> None:
    with pytest.raises(ValueError, match="not a table of HAProxy's statistics"):
        parse_statistics(text)


@given(st.text(max_size=80), st.integers(0, len(TABLE)))
def test_any_other_text_is_a_table_or_a_value_error(text: str, at: int) -> None:
    try:
        rows = parse_statistics(TABLE[:at] + text + TABLE[at:])
    except ValueError:
        return
    assert all(isinstance(value, str) for row in rows for value in row.values())
