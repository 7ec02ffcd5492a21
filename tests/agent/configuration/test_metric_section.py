"""The section ``[metric NAME]``: the defined metric, or findings with the line of each wrong key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.configuration.ini_file import Findings, parse_ini
from lbdns_agent.configuration.metric_section import KEYS, parse_flag, read_metric
from lbdns_agent.sources.json_field import JsonField
from lbdns_agent.sources.metric_definition import CommandSource, FileSource, MetricDefinition, UrlSource
from lbdns_agent.sources.plain_number import PlainNumber
from lbdns_agent.sources.prometheus_sample import PrometheusSample
from lbdns_agent.webserver.status_page import parse_page_url

URL = "http://127.0.0.1:9000/x"


def read(name: str, text: str) -> tuple[MetricDefinition | None, list[str]]:
    """Return the metric and the findings of a section whose keys are ``text``, from line 2."""
    findings = Findings("f")
    (section,) = parse_ini(f"[metric {name}]\n{text}", findings)
    return read_metric(section, name), findings.lines()


@pytest.mark.parametrize(
    ("text", "source", "selector", "is_rate"),
    [
        (f"json = {URL}", UrlSource(parse_page_url(URL, "")), JsonField(), False),
        (f"json = {URL}\nfield = a.0", UrlSource(parse_page_url(URL, "")), JsonField(("a", "0")), False),
        (f"prometheus = {URL}\nsample = jobs", UrlSource(parse_page_url(URL, "")), PrometheusSample("jobs"), False),
        ("command = /bin/echo 'a b' c", CommandSource(("/bin/echo", "a b", "c")), PlainNumber(), False),
        ("command = /b\nfield = c\nrate = yes", CommandSource(("/b",)), JsonField(("c",)), True),
        ("file = /run/n", FileSource("/run/n"), PlainNumber(), False),
        ("file = /run/n\nmax-age = 1.5\nsample = c", FileSource("/run/n", 1.5), PrometheusSample("c"), False),
    ],
)
def test_sources_and_formats(text: str, source: object, selector: object, is_rate: bool) -> None:
    assert read("queue", text) == (MetricDefinition("queue", source, selector, is_rate), [])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text", "lines", "is_read"),
    [
        ("queue", "", ["f:1: [metric queue] lacks a source"], False),
        ("queue", f"json = {URL}\nfile = /a", ["f:1: [metric queue] gives more than one source"], False),
        ("queue", "file = a", ["f:2: [metric queue] file:"], False),
        ("queue", "command = 'a", ["f:2: [metric queue] command:"], False),
        ("queue", f"prometheus = {URL}", ["f:1: [metric queue] lacks the key 'sample'"], False),
        ("queue", f"json = {URL}\nsample = a", ["f:3: [metric queue] sample:"], False),
        ("queue", "file = /a\nmax-age = -1\nrate = on", ["f:3: [metric queue] max-age:", "f:4: [metric queue] rate:"],
         True),
        ("queue", "command = /a\nmax-age = 1", ["f:3: [metric queue] max-age:"], True),
        ("Queue", "file = /a", ["f:1: [metric Queue]:"], True),
        ("score", "file = /a", ["f:1: [metric score]:"], True),
    ],
)  # fmt: skip
def test_findings_name_the_line_and_the_key(name: str, text: str, lines: list[str], is_read: bool) -> None:
    metric, found = read(name, text)
    assert (metric is not None) == is_read
    assert [line[: len(start)] for line, start in zip(found, lines)] == lines
    assert len(found) == len(lines)


@given(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["", "/a", URL, "yes", "3", "a.b", "a b", "'", "x{"])))
def test_a_section_gives_a_metric_or_a_finding(keys: dict[str, str]) -> None:
    metric, found = read("queue", "\n".join(f"{key} = {text}" for key, text in keys.items()))
    assert metric is not None or found
    assert not found or all(line.startswith("f:") for line in found)


def test_flags() -> None:
    assert (parse_flag("yes"), parse_flag("no")) == (True, False)
    for text in ("", "Yes", "true", "1"):
        with pytest.raises(ValueError, match="yes or no"):
            parse_flag(text)
