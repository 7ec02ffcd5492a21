"""Tests of parsing the command-line options of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from lbdns_tools.lab.lab_options import parse_names, settings_of, study_options
from lbdns_tools.lab.study_plan import StudySettings


def said(*arguments: str) -> dict[str, Any]:
    @click.command()
    @study_options
    def command(**values: Any) -> dict[str, Any]:
        return values

    values: dict[str, Any] = command.main(["--out", "x", *arguments], "lbdns-lab", standalone_mode=False)
    return values


def test_nothing_said_is_the_presets_own() -> None:
    values = said()
    assert settings_of(values) == StudySettings()
    assert (values["out"], values["farm"], values["force"]) == (Path("x"), None, False)


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    farm = tmp_path / "farm.toml"
    farm.touch()
    values = said(
        "--quick", "--seconds", "1min", "--warm-up", "2", "--repeat", "3", "--seed", "9", "--clients", "20..40/10",
        "--selections", "best, single:frodo,best", "--farm", str(farm), "--force", "--only", "dies",
        "--workload", "page50k", "--intervals", "1999",
    )  # fmt: skip
    assert settings_of(values) == StudySettings(
        True, 60.0, 2.0, 3, 9, (20, 30, 40), ("best", "single:frodo"), "dies", "page50k", "1999"
    )
    assert (values["farm"], values["force"]) == (farm, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seconds", "0"), "must be more than 0"),
        (("--seconds", "soon"), "'soon' is not a valid duration"),
        (("--repeat", "0"), "0 is not in the range 1<=x<=1000"),
        (("--clients", "0"), "is not a whole number from 1"),
        (("--clients", "20..10/5"), "must not be less than the first"),
        (("--selections", "best,"), "'best,': names must not be empty"),
        (("--farm", "none.toml"), "File 'none.toml' does not exist"),
        (("--workload", "page5k"), "'page5k' is not one of 'mix', 'page50k'"),
        (("--intervals", "2000"), "'2000' is not one of 'webstone', '1999'"),
        (("--sed", "1"), "No such option"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        said(*arguments)
    assert message in caught.value.format_message()


def test_out_is_needed() -> None:
    @click.command()
    @study_options
    def command(**values: Any) -> None:
        raise AssertionError

    with pytest.raises(click.MissingParameter, match="out"):
        command.main([], "lbdns-lab", standalone_mode=False)


def test_names_are_each_once() -> None:
    assert parse_names("a,b, a") == ("a", "b")
