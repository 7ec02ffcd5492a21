"""The CSV file of rounds: complete rows at once, read again after a restart."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.policies.scaling_policy import Demand, ScalingRound
from lbdns_tools.scaler.running.rounds_csv import COLUMNS, RoundRow, RoundsFile

ROW = RoundRow(
    Demand(1411919338.837, 24.4, 61.25), period=60.0, since_start=121.9, requests=1474.0, capacity=10.0, running=3,
    in_service=2, on_the_way=1, draining=0, stopped=1, failed=0, recommended=4, wanted=3, reason="24, say, need 4.",
)  # fmt: skip


def test_the_columns_of_2014_come_first(tmp_path: Path) -> None:
    file = RoundsFile(tmp_path / "rounds.csv")
    file.append(ROW)
    assert COLUMNS[:8] == (
        'diffpt', 'haactive', 'active', 'epoch_s', 'accumulated_sessions', 'date', 'sessions_per_s', 'needed_servers',
    )  # fmt: skip
    with (tmp_path / "rounds.csv").open(newline="") as lines:
        (row,) = csv.DictReader(lines)
    assert [row[name] for name in COLUMNS[:8]] == [
        "1464", "2", "3", "121", "1474", "2014-09-28T15:48:58.837000+00:00", "25", "4",
    ]  # fmt: skip
    assert row["reason"] == ROW.reason


def test_rounds_are_read_again(tmp_path: Path) -> None:
    first = RoundsFile(tmp_path / "rounds.csv")
    first.append(ROW)
    first.close()
    file = RoundsFile(tmp_path / "rounds.csv")
    file.append(replace(ROW, demand=Demand(1411919398.5, 3.0, None)))
    assert list(file.rounds(0.0)) == [
        ScalingRound(Demand(1411919338.837, 24.4, 61.2), 2, 4, 3),
        ScalingRound(Demand(1411919398.5, 3.0, None), 2, 4, 3),
    ]
    assert len(list(file.rounds(1411919390.0))) == 1


@pytest.mark.parametrize("cut", [1, 5, 18, 60])  # in the line end, in the quoted reason, before it, and in numbers
def test_a_row_that_a_crash_cut_off_is_skipped(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "rounds.csv"
    file = RoundsFile(path)
    file.append(ROW)
    file.append(ROW)
    file.close()
    path.write_bytes(path.read_bytes()[:-cut])
    again = RoundsFile(path)
    assert len(list(again.rounds(0.0))) == 1
    again.append(ROW)
    again.append(ROW)
    assert len(list(again.rounds(0.0))) == 3


def test_two_scalers_do_not_share_a_file(tmp_path: Path) -> None:
    file = RoundsFile(tmp_path / "rounds.csv")
    with pytest.raises(LbdnsError, match=r"rounds\.csv: cannot write the file: another recorder is writing"):
        RoundsFile(tmp_path / "rounds.csv")
    file.close()
    RoundsFile(tmp_path / "rounds.csv").close()


def test_other_columns_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "rounds.csv").write_text("a,b\n1,2\n")
    with pytest.raises(LbdnsError, match=r"rounds\.csv:1: the file has other columns"):
        RoundsFile(tmp_path / "rounds.csv")


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LbdnsError, match="cannot write the file: No such file"):
        RoundsFile(tmp_path / "missing" / "rounds.csv")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "rounds.csv").mkdir()
    with pytest.raises(LbdnsError, match=r"rounds\.csv: cannot read the file: Is a directory"):
        list(RoundsFile(tmp_path / "rounds.csv", read_only=True).rounds(0.0))


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    file = RoundsFile(tmp_path / "rounds.csv", read_only=True)
    file.append(ROW)
    assert list(file.rounds(0.0)) == []
    assert list(tmp_path.iterdir()) == []
    assert len(COLUMNS) == len(ROW.cells())
