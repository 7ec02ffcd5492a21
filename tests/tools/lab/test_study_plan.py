"""Tests of which steps of a study are kept when only some steps are requested."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.lab_command import PRESETS
from lbdns_tools.lab.study_plan import StudyPlan, StudySettings, StudyStep

FARM = LabFarm((WebHost("bilbo", 0.1),))


def study(*steps: tuple[str, str, bool]) -> StudyPlan:
    """Return a plan that consists of ``steps``; each is given as its name, its farm, and whether it is needed."""
    made = tuple(StudyStep(name, farm, 1.0, lambda lab: (), needed) for name, farm, needed in steps)
    return StudyPlan({step.farm: FARM for step in made}, made, lambda outcomes: [])


STUDY = study(
    ("it learns html", "one", True), ("best, HTML", "one", False), ("it learns cgi", "one", True),
    ("best, cgi", "one", False), ("best, the end", "one", False),
    ("it learns more", "two", True), ("best, more (cgi)", "two", False),
)  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        ("", [step.name for step in STUDY.steps]),
        ("html", ["it learns html", "best, HTML"]),
        ("end|^nothing", ["it learns html", "it learns cgi", "best, the end"]),
        ("MORE", ["it learns more", "best, more (cgi)"]),
        (r"\(", ["it learns more", "best, more (cgi)"]),
        ("learns more", ["it learns more"]),
    ],
)
def test_steps_that_are_wanted_and_what_they_need(pattern: str, kept: list[str]) -> None:
    only = STUDY.only(pattern)
    assert [step.name for step in only.steps] == kept
    assert list(only.farms) == list(dict.fromkeys(step.farm for step in only.steps))


def test_what_is_found_out_on_another_farm_is_needed_too() -> None:
    relying = replace(STUDY.steps[-1], relies_on="one")
    only = replace(STUDY, steps=(*STUDY.steps[:-1], relying)).only("more .cgi")
    assert [step.name for step in only.steps] == ["it learns html", "it learns cgi", "it learns more", relying.name]
    assert list(only.farms) == ["one", "two"]


def test_a_pattern_that_is_in_no_name() -> None:
    with pytest.raises(ConfigError, match="no step name matches 'ftp'; examples of step names: it learns html; best"):
        STUDY.only("ftp")


def test_no_pattern() -> None:
    with pytest.raises(ConfigError, match=r"--only: '\(' is not a valid regular expression: missing \)"):
        STUDY.only("(")


@pytest.mark.parametrize("name", PRESETS)
def test_the_last_step_of_each_study_has_what_it_needs(name: str) -> None:
    """Check that the learning and calibration steps on which a study's last step depends are kept."""
    whole = PRESETS[name].plan(StudySettings(), None)
    last = whole.steps[-1]
    before = [step for step in whole.steps[:-1] if step.farm in (last.farm, last.relies_on) and step.needed]
    assert before, "each farm begins with something that is needed"
    assert before[0].name.endswith("learns the workload") or "one client" in before[0].name
    only = whole.only(f"^{re.escape(last.name)}$")
    assert list(only.steps) == [*before, last]
