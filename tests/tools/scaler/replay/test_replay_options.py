"""Tests of the options of 'lbdns-scaler replay': lists of policies, and the settings that options describe."""

from __future__ import annotations

import click
import pytest

from lbdns_tools.scaler.policies.revenue_model import LossModel, Prices
from lbdns_tools.scaler.replay.replay_options import parse_policies, replay_options, settings_of
from lbdns_tools.scaler.replay.replay_settings import ReplaySettings


def parsed(*arguments: str) -> ReplaySettings:
    """Return the settings that the arguments describe."""
    command = click.command()(replay_options(lambda **options: settings_of(options)))
    found = command.main(list(arguments), standalone_mode=False)
    assert isinstance(found, ReplaySettings)
    return found


def test_the_defaults_are_those_of_the_settings() -> None:
    assert parsed() == ReplaySettings()


def test_every_option_is_a_setting() -> None:
    found = parsed(
        "--minimum", "2", "--maximum", "40", "--start", "5", "--period", "30", "--boot-time", "5min",
        "--drain-time", "0", "--service-time", "0.02", "--cores", "4", "--price", "0.2", "--income", "0.001",
        "--billing", "second", "--loss", "erlang-b", "--warm-up", "14d",
    )  # fmt: skip
    assert found == ReplaySettings(
        Prices(0.001, 0.2), 0.0, 0.02, 4.0, 300.0, 0.0, 2, 40, 30.0, LossModel.ERLANG_B, 5, 14 * 86_400.0
    )
    assert found.capacity == 200


def test_instance_types() -> None:
    found = parsed("--instance-type", "m1.small")
    assert found.capacity == pytest.approx(6)
    assert found.prices.price == 0.085


@pytest.mark.parametrize(("text", "expected"), [("cpu", ("cpu",)), (" cpu, queue,cpu", ("cpu", "queue")), ("all", ())])
def test_lists_of_policies(text: str, expected: tuple[str, ...]) -> None:
    assert parse_policies(text) == expected


@pytest.mark.parametrize("text", ["cqu", "cpu,", "all,cpu", ""])
def test_unknown_policies(text: str) -> None:
    with pytest.raises(ValueError, match="unknown policy"):
        parse_policies(text)


def test_contradictions() -> None:
    with pytest.raises(click.UsageError, match="--minimum 5 must not exceed --maximum 3"):
        parsed("--minimum", "5", "--maximum", "3")
