"""Tests of the command 'plot': the picture that it writes, its messages, and mistakes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lbdns_agent import cli
from lbdns_agent.recorder import chart_picture
from lbdns_agent.recorder.disk_table import LBDNS
from tests.agent.recorder.recorders import DISKSTATS, record_rounds

BEGINNINGS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Return a recorded file with sda and sdb."""
    rounds = ["vanish-1", "vanish-2", "vanish-3"]
    out = record_rounds(tmp_path, rounds, [1.5e9, 1.5e9 + 1, 1.5e9 + 2], "--devices", "all")
    return out / "diskstats.csv"


@pytest.mark.parametrize("ending", BEGINNINGS)
def test_each_kind_of_picture(ending: str, recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = recorded.with_name(f"picture{ending}")
    assert cli.main(["plot", str(recorded), "--out", str(out), "--devices", "sda"]) == 0
    assert out.read_bytes().startswith(BEGINNINGS[ending])
    assert capsys.readouterr() == (f"{out}\n", "")


def test_the_picture_has_the_name_of_the_first_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(DISKSTATS / "mon_vda.csv", tmp_path)
    assert cli.main(["plot", str(tmp_path / "mon_vda.csv")]) == 0
    assert (tmp_path / "mon_vda.png").read_bytes().startswith(BEGINNINGS[".png"])
    assert capsys.readouterr().out == f"{tmp_path / 'mon_vda.png'}\n"


def test_what_the_picture_shows(recorded: Path, tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.csv"
    metrics.write_text("time,load1\n2017-07-14T04:40:00+02:00,1\n2017-07-14T04:40:02+02:00,2\n")
    out = tmp_path / "picture.svg"
    assert cli.main(["plot", str(metrics), str(recorded), "--out", str(out)]) == 0
    text = out.read_text()
    for words in ("sda: requests", "sda: busy time", "load1", "tasks", "MB/s", ">read<", ">write<", "time ("):
        assert words in text, words
    assert "sdb: " not in text


def test_the_same_data_give_the_same_picture(recorded: Path, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        assert cli.main(["plot", str(recorded), "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_remarks(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with recorded.open("a") as file:
        file.write("half a r")
    assert cli.main(["plot", str(recorded)]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "lbdns-agent plot: 1 malformed row skipped",
        "lbdns-agent plot: not drawn: sdb; choose devices with --devices",
    ]


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        ([], 2, "the following arguments are required: FILE"),
        (["none.csv"], 2, "none.csv: No such file or directory"),
        (["other.csv"], 2, "other.csv: not a recorded file"),
        (["{recorded}", "--out", "picture.jpeg"], 2, "picture.jpeg: the file name must end in one of .png, .svg, .pdf"),
        (["{recorded}", "--devices", "sda,sdc"], 2, "--devices: sdc: not in these files, which contain: sda, sdb"),
        (["{recorded}", "--devices", "sdb"], 1, "nothing to draw: a rate needs two rows"),
        (["short.csv"], 1, "nothing to draw: a rate needs two rows"),
        (["{recorded}", "--out", "no/picture.png"], 1, "no/picture.png: cannot write the file: No such file"),
    ],
)
def test_mistakes(
    arguments: list[str],
    status: int,
    error: str,
    recorded: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.csv").write_text("a,b\n1,2\n")
    Path("short.csv").write_text(LBDNS.header(11) + "\n")
    assert cli.main(["plot", *(word.format(recorded=recorded) for word in arguments)]) == status
    shown = capsys.readouterr()
    assert error in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def test_without_matplotlib_the_error_says_what_to_install(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main(["plot", str(recorded)]) == 1
    assert capsys.readouterr().err == (
        "lbdns-agent plot: plotting requires matplotlib; to install it, run pip install 'lbdns-agent[plot]'\n"
    )


def test_help_and_palette(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plot", "--help"]) == 0
    text = capsys.readouterr().out
    assert "lbdns-agent plot diskstats_sda.csv" in text
    assert all(f"--{option}" in text for option in ("out", "devices"))
    assert len(set(chart_picture.COLOURS.values())) == len(chart_picture.COLOURS)


@pytest.mark.parametrize("command", ["record", "plot"])
def test_matplotlib_is_not_loaded_before_it_is_used(command: str) -> None:
    module = f"lbdns_agent.recorder.{command}_command"
    code = f"import sys, {module}; sys.exit('matplotlib' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
