"""The table of presets: each can be planned, at any speed, and is called by its name."""

from __future__ import annotations

import pytest

from lbdns.errors import ConfigError
from lbdns_tools.lab.presets.preset import Preset, Settings
from lbdns_tools.lab.presets.table import PRESETS

pytestmark = pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)


@pytest.mark.parametrize("quick", [True, False])
def test_what_will_be_done_is_known_before(preset: Preset, quick: bool) -> None:
    study = preset.plan(Settings(quick=quick), None)
    assert study.steps
    assert {step.farm for step in study.steps} == set(study.farms)
    assert all(step.seconds > 0 and step.name for step in study.steps)


def test_quick_is_quick(preset: Preset) -> None:
    quick, full = (preset.plan(Settings(quick=quick), None).seconds for quick in (True, False))
    assert quick < min(600, full / 2)


def test_a_selection_that_there_is_not(preset: Preset) -> None:
    with pytest.raises(ConfigError, match="--selections"):
        preset.plan(Settings(selections=("nobody",)), None)


def test_names_and_help(preset: Preset) -> None:
    assert PRESETS[preset.name] is preset
    assert preset.title
    assert preset.help
