"""Tests of ``python -m lbdns_tools.bench``: the list of benchmarks, the help text, and unknown names."""

from __future__ import annotations

import pytest

from lbdns_tools.bench.__main__ import main
from lbdns_tools.bench.benchmark_table import BENCHMARKS


def test_the_list_names_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(BENCHMARKS)


def test_help_has_an_example_and_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "example: python -m lbdns_tools.bench dns.peers" in text
    assert "dns.startup" in text


@pytest.mark.parametrize("arguments", [[], ["dns.peer"]])
def test_a_name_that_does_not_exist_is_an_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert "there is no benchmark named" in error
    assert ("dns.peers'" in error) or not arguments


def test_options_follow_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["dns.peers", "--help"])
    assert "--also LABEL=PATH" in capsys.readouterr().out
