"""Tests of writing and reading a study's journal, from which an interrupted study is resumed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.measuring.outcome_journal import JOURNAL, OutcomeJournal, open_journal
from lbdns_tools.lab.study_plan import StudySettings
from tests.tools.lab.presets.fake_lab import made

FARMS = {"one": LabFarm((WebHost("bilbo", 0.11),))}
SETTINGS = StudySettings(clients=(20,))
OUTCOME = replace(
    made("single", shares={"bilbo": 1.0}, cpu={"bilbo": 10.0}, error_percent=2.5, host="bilbo", load=0.5, p95=None),
    kernel={"bilbo": {"listen_drops": 3.0, "time_wait": 1e4}},
)


def opened(folder: Path, settings: StudySettings = SETTINGS, study: str = "made_up") -> OutcomeJournal:
    return open_journal(folder, study, settings, FARMS, resume=True)


def test_outcomes_are_read_as_they_were_written(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        assert journal.done == {}
        journal.add(("a", 0), [OUTCOME])
        journal.add(("a", 1), [])
    with opened(tmp_path) as journal:
        assert list(journal.done) == [("a", 0), ("a", 1)]
        (found,) = journal.done["a", 0]
    assert (found.case, found.row.point, found.row.figures) == (OUTCOME.case, OUTCOME.row.point, OUTCOME.row.figures)
    assert (found.samples, found.answers, found.row.begun) == (OUTCOME.samples, OUTCOME.answers, OUTCOME.row.begun)
    assert found.kernel == OUTCOME.kernel
    assert found.row.tally.state() == OUTCOME.row.tally.state()
    assert found.row.tally.latency.percentile(95) == OUTCOME.row.tally.latency.percentile(95)


def test_without_resuming_a_journal_begins_again(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.add(("a", 0), [OUTCOME])
    with open_journal(tmp_path, "made_up", StudySettings(), FARMS) as journal:
        assert journal.done == {}
    assert len((tmp_path / JOURNAL).read_text().splitlines()) == 1


@pytest.mark.parametrize("torn", [1, 10, 500])
def test_a_line_that_was_not_written_completely_does_not_count(tmp_path: Path, torn: int) -> None:
    with opened(tmp_path) as journal:
        journal.add(("a", 0), [])
        journal.add(("b", 0), [OUTCOME])
    path = tmp_path / JOURNAL
    path.write_text(path.read_text()[:-torn])
    with opened(tmp_path) as journal:
        assert list(journal.done) == [("a", 0)]
        journal.add(("c", 0), [])
    with opened(tmp_path) as journal:
        assert list(journal.done) == [("a", 0), ("c", 0)]


def test_the_last_line_of_a_step_applies(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.add(("a", 0), [OUTCOME])
        journal.add(("a", 0), [made("best")])
    with opened(tmp_path) as journal:
        assert [outcome.case.selection for outcome in journal.done["a", 0]] == ["best"]


def test_another_study_is_not_continued(tmp_path: Path) -> None:
    opened(tmp_path).__exit__()
    with pytest.raises(ConfigError, match=r"the study began with clients = \[20\], not \[30\]; use the same options"):
        opened(tmp_path, StudySettings(clients=(30,)))
    with pytest.raises(ConfigError, match="it contains the study 'made_up', not 'webstone'"):
        opened(tmp_path, study="webstone")
    with pytest.raises(ConfigError, match="the study began with another farm"):
        open_journal(tmp_path, "made_up", StudySettings(clients=(20,)), {"one": LabFarm(())}, resume=True)


@pytest.mark.parametrize("text", ["", "{}\n", "hello\n", json.dumps({"study": "x"}), "[1]\n"])
def test_what_is_no_journal(tmp_path: Path, text: str) -> None:
    (tmp_path / JOURNAL).write_text(text)
    with pytest.raises(LbdnsError, match="not the journal of a study"):
        opened(tmp_path)
