"""The table of studies: each study can be planned, quick or not, and has its own name."""

from __future__ import annotations

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.lab.presets.study_table import PRESETS
from lbdns_tools.lab.study_plan import StudyPreset, StudySettings

pytestmark = pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)


@pytest.mark.parametrize("quick", [True, False])
def test_what_will_be_done_is_known_before(preset: StudyPreset, quick: bool) -> None:
    study = preset.plan(StudySettings(quick=quick), None)
    assert study.steps
    assert {step.farm for step in study.steps} == set(study.farms)
    assert all(step.seconds > 0 and step.name for step in study.steps)


def test_quick_is_quick(preset: StudyPreset) -> None:
    quick, full = (preset.plan(StudySettings(quick=quick), None).seconds for quick in (True, False))
    assert quick < min(600, full / 2)


def test_a_selection_that_there_is_not(preset: StudyPreset) -> None:
    with pytest.raises(ConfigError, match="--selections"):
        preset.plan(StudySettings(selections=("nobody",)), None)


def test_names_and_help(preset: StudyPreset) -> None:
    assert PRESETS[preset.name] is preset
    assert preset.title
    assert preset.help
