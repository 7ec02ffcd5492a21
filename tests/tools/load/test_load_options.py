"""Tests of lbdns-load options that exclude or require other options."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from lbdns_shared.endpoint import Endpoint
from lbdns_tools.load.load_options import EXCLUDES, NEEDS, OPTIONS, SEARCH_EXCLUDES, SEARCH_NEEDS, option_name
from lbdns_tools.load.load_study import LOADS, SEARCHES
from lbdns_tools.load.phases_file import TARGETS
from tests.tools.load.load_command_line import said

URL = "http://a/"


def test_everything_is_read() -> None:
    values = said(
        URL, "--clients", "20..40/10", "--resolver", "127.0.0.1:5300", "--resolve", "every:5s", "--seconds", "2min",
        "--repeat", "3", "--fail-if", "p99>200ms", "--source", "127.0.0.2", "--source", "127.0.0.3", "--csv", "x.csv",
    )  # fmt: skip
    assert values["clients"] == (20, 30, 40)
    assert values["resolver"] == Endpoint("127.0.0.1", 5300)
    assert str(values["resolve"]) == "every:5s"
    assert values["seconds"] == 120
    assert values["repeat"] == 3
    assert values["sources"] == ("127.0.0.2", "127.0.0.3")
    assert values["csv"] == Path("x.csv")
    assert [threshold.name for threshold in values["fail_if"]] == ["p99_s"]
    assert (values["timeout"], values["processes"], values["keep_alive"]) == (10, 0, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "a target is required: specify a URL"),
        ("--clients 5", "a target is required"),
        (f"{URL} --urls x", "URL and --urls cannot be combined"),
        (f"{URL} --files html --base {URL}", "URL and --files cannot be combined"),
        ("--files html", "--files requires --base"),
        (f"{URL} --base {URL}", "--base requires --files"),
        (f"{URL} --clients 5 --rate 5", "--clients and --rate cannot be combined"),
        (f"{URL} --ramp 1..5 --trace x --seconds 5", "--ramp and --trace cannot be combined"),
        (f"{URL} --ramp 1..5", "--ramp requires --seconds"),
        (f"{URL} --trace x", "--trace requires --seconds"),
        (f"{URL} --trace-column 2", "--trace-column requires --trace"),
        (f"{URL} --trace x --seconds 5 --min 3", "--min requires --max"),
        (f"{URL} --max 3", "--max requires --trace"),
        (f"{URL} --trace x --seconds 5 --min 3 --max 2", "--min must not exceed --max: 3 is more than 2"),
        ("--access-log x", "--access-log requires --base"),
        (f"{URL} --url-order log", "--url-order requires --access-log"),
        (f"{URL} --access-log x --base {URL}", "--access-log and URL cannot be combined"),
        (f"--files html --access-log x --base {URL}", "--access-log and --files cannot be combined"),
        (f"--access-log x --base {URL} --rate 5", "--rate and --access-log cannot be combined"),
        (f"--access-log x --base {URL} --think 5", "--think and --access-log cannot be combined"),
        (f"{URL} --spacing even", "--spacing requires --rate or --ramp or --trace or --access-log"),
        (f"{URL} --rate 5 --think 1", "--think and --rate cannot be combined"),
        ("--phases x --seconds 5", "--phases and --seconds cannot be combined"),
        (f"{URL} --requests 5 --warm-up 1", "--warm-up and --requests can be combined only with --rate"),
        (f"{URL} --csv - --json -", "cannot both write to standard output"),
        (f"{URL} --search rate --connections 5", "--search requires --range"),
        (f"{URL} --range 1..5", "--range requires --search"),
        (f"{URL} --connections 5", "--connections requires --search"),
        (f"{URL} --search rate --range 1..5", "--search rate requires --connections"),
        (f"{URL} --search connections --range 1..5", "--search connections requires --rate"),
        (f"{URL} --search rate --range 1..5 --connections 5 --rate 5", "--search rate and --rate cannot be combined"),
        (f"{URL} --search clients --range 1..5 --rate 5", "--search clients and --rate cannot be combined"),
        (f"{URL} --search clients --range 1..5 --clients 5", "--search and --clients cannot be combined"),
        (f"{URL} --search clients --range 1..5 --fail-if p99>1s", "--search and --fail-if cannot be combined"),
    ],
)
def test_what_can_not_stand_together(arguments: str, message: str) -> None:
    with pytest.raises(click.UsageError, match=re.escape(message)):
        said(*arguments.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--clients 5..1/1", "must not be less than the first"),
        ("--rate 0", "the rate 0 must be above 0"),
        ("--resolve evry:5s", "Perhaps you meant 'every'?"),
        ("--resolver ns", "the resolver must be an IP address"),
        ("--fail-if p98>5ms", "there is no statistic named 'p98'"),
        ("--seconds 0", "must be more than 0"),
        ("--repeat 0", "0 is not in the range"),
        ("--processes none", "neither 'auto' nor a whole number"),
        ("--files htm", "is not one of"),
    ],
)
def test_values_that_are_wrong(arguments: str, message: str) -> None:
    with pytest.raises(click.BadParameter) as error:
        said(URL, *arguments.split())
    assert message in str(error.value)


@pytest.mark.parametrize(
    "arguments",
    [
        URL,
        "--phases x",
        f"{URL} --phases x --keep-alive",
        f"{URL} --rate 5 --requests 50 --warm-up 1",
        f"{URL} --ramp 1..5 --seconds 5 --requests 50 --spacing poisson",
        f"{URL} --trace x --trace-column rate --min 0 --max 5 --seconds 5",
        f"{URL} --search rate --range 1..5 --connections 5 --spacing poisson --accuracy 1 --max-errors 0",
        f"{URL} --search connections --range 1..5 --rate 5,10",
        f"{URL} --search clients --range 1..5 --seconds 3 --think 1 --max-latency p95:1s --min-achieved 90",
    ],
)
def test_what_can(arguments: str) -> None:
    assert said(*arguments.split())


def test_only_options_that_exist_are_spoken_of() -> None:
    known = {parameter.name for parameter in _parameters()}
    spoken_of = {*TARGETS, *LOADS}
    for table in (NEEDS, EXCLUDES):
        for name, others in table.items():
            spoken_of |= {name, *others}
    for table in (SEARCH_NEEDS, SEARCH_EXCLUDES):
        assert set(table) == set(SEARCHES)
        for others in table.values():
            spoken_of |= set(others)
    assert spoken_of <= known
    for parameter in _parameters():
        if isinstance(parameter, click.Option):
            assert option_name(str(parameter.name)) in parameter.opts


def _parameters() -> list[click.Parameter]:
    def nothing() -> None:
        return

    for option in reversed(OPTIONS):
        nothing = option(nothing)
    return click.command()(nothing).params
