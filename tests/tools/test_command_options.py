"""Tests of the options that several tools share."""

from __future__ import annotations

from typing import Any

import click
import pytest

from lbdns_tools.command_options import SECONDS, SEED_OPTION, add_options, parse_seconds, repeat_option


def parsed(*arguments: str) -> dict[str, Any]:
    options = (click.option("--seconds", type=SECONDS), repeat_option("Runs of each."), SEED_OPTION)

    @click.command()
    @add_options(options)
    def command(**values: Any) -> dict[str, Any]:
        return values

    values: dict[str, Any] = command.main(list(arguments), "command", standalone_mode=False)
    return values


def test_defaults() -> None:
    assert parsed() == {"seconds": None, "repeat": 1, "seed": 1}


def test_values() -> None:
    assert parsed("--seconds", "1min", "--repeat", "3", "--seed", "0") == {"seconds": 60.0, "repeat": 3, "seed": 0}


def test_an_error_of_the_parser_names_the_option() -> None:
    with pytest.raises(click.BadParameter) as caught:
        parsed("--seconds", "soon")
    assert "soon" in caught.value.message
    assert "--seconds" in caught.value.format_message()


def test_help_lists_the_options_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    parsed("--help")
    lines = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  --")]
    assert lines == ["--seconds", "--repeat", "--seed", "--help"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), (" 0.5 ", 0.5), ("90s", 90.0), ("1m30s", 90.0), ("10min", 600.0)]
)
def test_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["0", "0s", "-1", "1x", ""])
def test_text_that_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|must be more than 0"):
        parse_seconds(text)
