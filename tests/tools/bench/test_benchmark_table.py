"""Checks that each entry in the table of benchmarks has a matching module, valid arguments, and a row in the docs."""

from __future__ import annotations

import argparse
import importlib

import pytest

from lbdns_tools.bench.all_benchmarks import figures_file, read_figures
from lbdns_tools.bench.benchmark_table import BENCHMARKS, Headline


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_accepts_the_arguments_of_its_short_form(name: str) -> None:
    module = importlib.import_module(BENCHMARKS[name].module)
    assert module.__doc__
    assert module.TAKES
    for arguments in (BENCHMARKS[name].short, module.EXAMPLE.split()):
        parser = argparse.ArgumentParser()
        module.add_options(parser)
        options, unknown = parser.parse_known_args(arguments)
        assert unknown in ([], ["--json", *arguments[-1:]])
        assert vars(options)
    assert callable(module.measure)
    assert callable(module.tables)


def test_every_headline_figure_has_a_row_in_the_docs() -> None:
    kept = read_figures(figures_file().read_text())
    assert set(kept) == {(name, line.name) for name, one in BENCHMARKS.items() for line in one.headlines}


def test_every_benchmark_is_described_in_the_docs() -> None:
    text = figures_file().read_text()
    assert [name for name in BENCHMARKS if f"| `{name}` |" not in text] == []


def test_a_headline_figure_is_found_in_the_results() -> None:
    line = Headline("CPU", "us", ("servers", "lbdns", "cpu"), 0.1)
    assert line.value_in({"servers": {"lbdns": {"cpu": 3}}}) == 3.0
    with pytest.raises(KeyError):
        line.value_in({"servers": {}})


@pytest.mark.parametrize(
    ("higher_is_better", "now", "worse"),
    [(False, 109.0, False), (False, 111.0, True), (False, 1.0, False), (True, 91.0, False), (True, 89.0, True)],
)
def test_worse_is_a_change_beyond_the_noise(higher_is_better: bool, now: float, worse: bool) -> None:
    assert Headline("x", "", (), 0.1, higher_is_better).is_worse(now, 100.0) == worse
