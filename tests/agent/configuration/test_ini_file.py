"""The syntax of the configuration file, with the line of each error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.configuration.ini_file import Findings, parse_ini

TEXT = """\
# a comment
[agent]
Name = gandalf
collector = ns1
    ns2 = x
    ; no value

[metric a b]  # of importance
command = /bin/echo a=b; c # d
"""


def test_sections_keys_and_lines() -> None:
    findings = Findings("f")
    agent, metric = parse_ini(TEXT, findings)
    assert findings.lines() == []
    assert (agent.name, agent.line, agent.texts) == ("agent", 2, {"name": "gandalf", "collector": "ns1\nns2 = x"})
    assert agent.lines == {"name": 3, "collector": 4}
    assert (metric.name, metric.line, metric.texts) == ("metric a b", 8, {"command": "/bin/echo a=b; c # d"})


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a = 1\n[agent]\n", ["f:1: a line before the first section; begin with a section such as [agent]"]),
        ("[agent]\nword\n[x\n", ["f:2: must be a section such as [agent], or KEY = VALUE",
                                  "f:3: must be a section such as [agent], or KEY = VALUE"]),
        ("[a]\nx = 1\nX = 2\n", ["f:3: x appears a second time; the first is in line 2"]),
        ("[a]\nx = 1\n[b]\nx = 1\n[a]\n", ["f:5: [a] appears a second time; the first is in line 1"]),
    ],
)  # fmt: skip
def test_errors(text: str, lines: list[str]) -> None:
    findings = Findings("f")
    parse_ini(text, findings)
    assert findings.lines() == lines


@given(st.text(alphabet="[]=#; \n\tab%{}\r\x00\x0b\u2028", max_size=60))
def test_any_text_gives_sections_or_findings(text: str) -> None:
    findings = Findings("f")
    for section in parse_ini(text, findings):
        assert all(isinstance(value, str) for value in section.texts.values())
    assert all(line.startswith("f:") for line in findings.lines())
