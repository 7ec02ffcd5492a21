"""Tests of replay settings: the study's defaults, and the settings that policies take over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lbdns_tools.scaler.policies.forecast import Forecast
from lbdns_tools.scaler.policies.queue import Queue
from lbdns_tools.scaler.policies.revenue import Revenue
from lbdns_tools.scaler.policies.revenue_model import LossModel, Prices
from lbdns_tools.scaler.replay.replay_settings import ReplaySettings, make_policy


def test_the_defaults_are_those_of_the_study() -> None:
    settings = ReplaySettings()
    assert settings.capacity == pytest.approx(28.571, abs=0.001)
    assert (settings.prices.income, settings.prices.price) == (0.000017, 0.17)
    assert (settings.minimum, settings.maximum, settings.billing_period) == (1, 20, 3600)


def test_policies_with_defaults_know_the_farm() -> None:
    settings = replace(
        ReplaySettings(Prices(2.0, 3.0)), loss=LossModel.ERLANG_B, cores=8, boot_time=30.0, billing_period=0.0
    )
    assert make_policy("revenue", settings, {}) == Revenue(2.0, 3.0, "erlang_b")
    assert make_policy("queue", settings, {}) == Queue(cores=8, billing_period=0.0)
    assert make_policy("forecast", settings, {}) == Forecast(cores=8, billing_period=0.0, boot_time=30.0)


def test_configured_policies_stay_as_they_are() -> None:
    mine = Queue(cores=16)
    assert make_policy("queue", ReplaySettings(), {"queue": mine}) is mine
