"""The section ``[web-server]``: the measured web server, or findings with the line of each wrong key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.configuration.ini_file import Findings, parse_ini
from lbdns_agent.configuration.web_server_section import KEYS, read_web_server
from lbdns_agent.webserver.status_page import parse_page_url
from lbdns_agent.webserver.web_server_options import DEFAULT_WATCH, WebServerOptions
from lbdns_shared.endpoint import Endpoint

CSV = "http://127.0.0.1:8404/stats;csv"


def read(text: str) -> tuple[WebServerOptions | None, list[str]]:
    """Return the web server and the findings of a section whose keys are ``text``, from line 2."""
    findings = Findings("f")
    (section,) = parse_ini(f"[web-server]\n{text}", findings)
    return read_web_server(section), findings.lines()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "nginx = http://[::1]:81/status\nworkers = 3",
            WebServerOptions("nginx", parse_page_url("http://[::1]:81/status", ""), 3.0, watch=Endpoint("::1", 81)),
        ),
        (
            "nginx = http://127.0.0.1/\nwatch = 192.0.2.1:443",
            WebServerOptions("nginx", parse_page_url("http://127.0.0.1/", ""), watch=Endpoint("192.0.2.1", 443)),
        ),
        ("haproxy = /run/s", WebServerOptions("haproxy", "/run/s", watch=DEFAULT_WATCH)),
        (
            f"haproxy = {CSV}\nproxies = a,b  c",
            WebServerOptions(
                "haproxy", parse_page_url(CSV, ""), None, frozenset({"a", "b", "c"}), Endpoint("127.0.0.1", 8404)
            ),
        ),
    ],
)
def test_web_servers(text: str, expected: WebServerOptions) -> None:
    assert read(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "lines", "is_read"),
    [
        ("", ["f:1: [web-server]"], False),
        ("nginx = http://a/\nhaproxy = /b", ["f:1: [web-server]"], False),
        ("nginx = /run/s", ["f:2: [web-server] nginx:"], False),
        ("haproxy = stats", ["f:2: [web-server] haproxy:"], False),
        ("haproxy = http://a/stats", ["f:2: [web-server] haproxy:"], False),
        ("haproxy = /s\nproxies = ,", ["f:3: [web-server] proxies:"], True),
        ("nginx = http://a/\nproxies = b", ["f:3: [web-server] proxies:"], True),
        ("haproxy = /s\nworkers = 0", ["f:3: [web-server] workers:"], True),
        ("haproxy = /s\nworkers = 1.5\nwatch = ::1", ["f:3: [web-server] workers:", "f:4: [web-server] watch:"], True),
    ],
)
def test_findings_name_the_line_and_the_key(text: str, lines: list[str], is_read: bool) -> None:
    server, found = read(text)
    assert (server is not None) == is_read
    assert [line[: len(start)] for line, start in zip(found, lines)] == lines
    assert len(found) == len(lines)


@given(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["", "/a", CSV, "http://a", "3", "a:b", "[::1]:80"])))
def test_a_section_gives_a_web_server_or_a_finding(keys: dict[str, str]) -> None:
    server, found = read("\n".join(f"{key} = {text}" for key, text in keys.items()))
    assert server is not None or found
