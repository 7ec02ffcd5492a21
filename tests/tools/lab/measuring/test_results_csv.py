"""Tests of results.csv and samples.csv: column order, empty cells for missing results, and immediate output."""

from __future__ import annotations

import csv
from importlib import resources
from pathlib import Path

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.measuring.cgroup_sampler import MachineSample
from lbdns_tools.lab.measuring.results_csv import RESULTS, SAMPLE_COLUMNS, SAMPLES, ResultFiles, groups_of, line_of
from lbdns_tools.load.request_tally import ERRORS, LOCAL_CAUSES
from lbdns_tools.load.result_rows import WEBSTONE
from lbdns_tools.load.run_statistics import NUMBERS, STATUSES
from tests.tools.lab.made_up_outcomes import FARM, outcome

BEGUN = 1e9
WEBSTONE_NAMES = {name: column for column, name in WEBSTONE.items()}
TWO_SECONDS = (
    MachineSample(BEGUN + 3.0, {"bilbo": 10.0, "dns": 1.5}, {"bilbo": 500}),
    MachineSample(BEGUN + 4.0, {"bilbo": 20.0}, {"bilbo": 900}),
)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_first_columns_are_those_of_1999() -> None:
    facts = resources.files("lbdns_tools.lab").joinpath("facts/webstone_1999.csv").read_text()
    columns = facts.splitlines()[0].split(",")
    line = line_of(outcome(), "webstone", (), ())
    assert list(line)[: len(columns) + 2] == [*columns, "resolve", "p95_s"]
    assert (line["table"], line["selection"], line["clients"], line["resolve"]) == ("Table 10", "best", 20, "webstone")


@pytest.mark.parametrize(
    ("study", "selection", "table"),
    [
        ("webstone", "round_robin", "Table 7"),
        ("webstone", "best_score", "webstone"),
        ("balancers", "best", "balancers"),
    ],
)
def test_table_is_that_of_1999_or_the_study(study: str, selection: str, table: str) -> None:
    assert line_of(outcome(selection), study, (), ())["table"] == table


def test_each_host_and_group_has_its_columns(tmp_path: Path) -> None:
    with ResultFiles(tmp_path, "webstone", [FARM]) as results:
        results.add(outcome(samples=TWO_SECONDS, answers={"bilbo": 3}))
    (line,) = read(tmp_path / RESULTS)
    assert (line["share_bilbo"], line["share_frodo"]) == ("0.25", "0.75")
    assert (line["answers_bilbo"], line["answers_frodo"]) == ("3", "")
    assert (line["cpu_percent_bilbo"], line["cpu_percent_dns"], line["cpu_percent_frodo-agent"]) == ("15", "1.5", "")
    assert (line["memory_bilbo"], line["memory_dns"]) == ("900", "")
    assert {"cpu_percent_haproxy", "cpu_percent_resolver1", "cpu_percent_client1"} <= set(line)
    assert "cpu_percent_hub" not in line
    assert line["begun"] == "1000000000.000"


def test_the_figures_of_httperf_are_there() -> None:
    measured = outcome()
    line = line_of(measured, "balancers", (), ())
    names = [WEBSTONE_NAMES.get(name, name) for name in NUMBERS]
    without = {"dns_p95_s", "late_p99_s"}
    assert set(names) - line.keys() == without
    assert [line[name] for name in names if name not in without] == [
        measured.row.figures.number(name) for name in NUMBERS if name not in without
    ]
    assert {status: line[f"status_{status}"] for status in STATUSES} == measured.row.figures.statuses
    assert {cause: line[f"local_{cause}"] for cause in LOCAL_CAUSES} == measured.row.figures.local
    assert {error: line[f"errors_{error}"] for error in ERRORS} == measured.row.figures.errors


def test_no_result_is_empty_and_a_host_that_got_nothing_got_0(tmp_path: Path) -> None:
    with ResultFiles(tmp_path, "balancers", [FARM]) as results:
        results.add(outcome(shares={"bilbo": 1.0}))
        results.add(outcome("haproxy", shares={"haproxy": 1.0}))
        results.add(outcome(requests=0, shares={}))
    lines = read(tmp_path / RESULTS)
    assert [line["share_frodo"] for line in lines] == ["0", "", ""]
    assert lines[2]["connections_per_s"] == lines[2]["p95_s"] == lines[2]["error_percent"] == ""
    assert lines[2]["requests"] == "0"


def test_lines_are_there_as_soon_as_they_are_added(tmp_path: Path) -> None:
    results = ResultFiles(tmp_path, "webstone", [FARM])
    for count in (1, 2, 3):
        results.add(outcome(clients=count, samples=TWO_SECONDS[:1]))
        assert [line["clients"] for line in read(tmp_path / RESULTS)] == [str(n) for n in range(1, count + 1)]
        assert len(read(tmp_path / SAMPLES)) == 2 * count
    results.__exit__(None, None, None)


def test_columns_of_one_study_alone_come_when_they_are_there(tmp_path: Path) -> None:
    with ResultFiles(tmp_path, "capacity", [FARM]) as results:
        results.add(outcome(clients=1))
        results.add(outcome(clients=2, connections=400, note='a, "b"'))
        results.add(outcome(clients=3, note="c", selection_of_more="x"))
        results.add(outcome(clients=4))
    lines = read(tmp_path / RESULTS)
    assert [line["note"] for line in lines] == ["", 'a, "b"', "c", ""]
    assert [line["connections"] for line in lines] == ["", "400", "", ""]
    assert list(lines[0])[-3:] == ["connections", "note", "selection_of_more"]
    assert [line["clients"] for line in lines] == ["1", "2", "3", "4"]
    assert {path.name for path in tmp_path.iterdir()} == {RESULTS, SAMPLES}


def test_more_does_not_hide_a_figure() -> None:
    assert line_of(outcome(p95_s=17.0), "x", (), ())["p95_s"] != 17.0


def test_samples_are_a_line_each(tmp_path: Path) -> None:
    with ResultFiles(tmp_path, "webstone", [FARM]) as results:
        results.add(outcome())
        results.add(outcome(samples=TWO_SECONDS))
    with (tmp_path / SAMPLES).open(newline="") as file:
        lines = list(csv.reader(file))
    assert lines == [
        list(SAMPLE_COLUMNS),
        ["1000000003.000", "2", "3.000", "bilbo", "10", "500"],
        ["1000000003.000", "2", "3.000", "dns", "1.5", ""],
        ["1000000004.000", "2", "4.000", "bilbo", "20", "900"],
    ]


def test_hosts_and_groups_of_several_farms_are_there_once(tmp_path: Path) -> None:
    equal = LabFarm((WebHost("frodo", 0.2), WebHost("sam", 0.2)), agents_inside=True)
    with ResultFiles(tmp_path, "made_up", [FARM, equal]) as files:
        files.add(outcome())
    columns = (tmp_path / "results.csv").read_text().splitlines()[0].split(",")
    assert [name for name in columns if name.startswith("share_")] == ["share_bilbo", "share_frodo", "share_sam"]
    groups = groups_of([FARM, equal])
    assert len(set(groups)) == len(groups)
    assert "bilbo-agent" in groups
    assert "sam-agent" not in groups  # it has none of its own


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(LbdnsError, match=r"nowhere/samples\.csv: cannot write the file: No such file"):
        ResultFiles(tmp_path / "nowhere", "webstone", [FARM])
