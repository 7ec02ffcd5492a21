"""The parser of nginx's stub_status page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_shared.nginx_stub_status import StubStatus, parse_stub_status

PAGE = """\
Active connections: 291 
server accepts handled requests
 16630948 16630948 31070465 
Reading: 6 Writing: 179 Waiting: 106 
"""  # noqa: W291


def test_page() -> None:
    assert parse_stub_status(PAGE) == StubStatus(31_070_465, 185, 106)


@pytest.mark.parametrize("text", ["", "<html>404</html>", PAGE.replace("Writing", "writing"), PAGE + "more"])
def test_what_is_not_a_page(text: str) -> None:
    with pytest.raises(ValueError, match="not a page of nginx's stub_status"):
        parse_stub_status(text)


@given(st.text(max_size=50), st.integers(0, len(PAGE)))
def test_anything_else_is_a_value_error(text: str, at: int) -> None:
    try:
        found = parse_stub_status(PAGE[:at] + text + PAGE[at:])
    except ValueError:
        return
    assert found.requests >= 0
