"""The file with the servers of an upstream block."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.scaler.front_ends.nginx_upstream_file import HEADER, UpstreamServer, parse_upstream, upstream_text

SERVERS = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True),
    st.builds(UpstreamServer, st.ip_addresses().map(str), st.booleans()),
    max_size=5,
)


def test_text() -> None:
    servers = {"web-1": UpstreamServer("192.0.2.1", down=False), "web-2": UpstreamServer("2001:db8::2", down=True)}
    assert upstream_text(servers, 8080, "max_fails=2 fail_timeout=5s") == HEADER + (
        "server 192.0.2.1:8080 max_fails=2 fail_timeout=5s;  # web-1\n"
        "server [2001:db8::2]:8080 max_fails=2 fail_timeout=5s down;  # web-2\n"
    )


@given(SERVERS, st.integers(1, 65535), st.sampled_from(["", "weight=2", "max_fails=0 backup"]))
def test_what_is_written_is_read_again(servers: dict[str, UpstreamServer], port: int, options: str) -> None:
    assert parse_upstream(upstream_text(servers, port, options)) == servers


@pytest.mark.parametrize(
    "line", ["server 192.0.2.1:80;", "server web.example.net;  # web-1", "keepalive 16;", "server 192.0.2.1:80;  # a b"]
)
def test_files_that_somebody_else_has_written(line: str) -> None:
    with pytest.raises(ValueError, match=r"line 2|web\.example\.net"):
        parse_upstream(f"{HEADER}{line}\n")


@given(st.text(max_size=100))
def test_anything_else_is_a_value_error(text: str) -> None:
    try:
        parse_upstream(text)
    except ValueError:
        return
    assert not text.strip(), text
