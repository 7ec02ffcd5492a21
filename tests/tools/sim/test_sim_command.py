"""Tests of the output and exit status of the lbdns-sim command."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lbdns.command_line.run_command import run
from lbdns_tools import __version__
from lbdns_tools.sim.recording_format import event_line, header_line
from lbdns_tools.sim.sim_command import command
from lbdns_tools.sim.simulation_options import OPTIONS
from lbdns_tools.sim.simulation_presets import PRESETS
from tests.tools.sim.made_up_recordings import record

ROOT = Path(__file__).parents[3]
QUICK = ("--servers", "1.1x1,0.7x1,2x2", "--duration", "5", "--warm-up", "2", "--seeds", "2", "--processes", "1")
#: choosing.md's own: what is in it is relied on
CELL_KEYS = {
    "policy", "seeds", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "throughput_per_s", "failed", "requests", "shares",
}  # fmt: skip


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(command, "lbdns-sim", arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, *QUICK, "--load", "0.5,0.7", "--policy", "best,oracle", "--json")
    assert (status, err) == (0, "")
    cells: list[dict[str, Any]] = json.loads(out)["cells"]
    assert [(c["load"], c["policy"]) for c in cells] == [(0.5, "best"), (0.5, "oracle"), (0.7, "best"), (0.7, "oracle")]
    for found in cells:
        assert found.keys() >= CELL_KEYS
        assert found["seeds"] == 2
        assert set(found["shares"]) == {"s1", "s2", "s3"}
        assert sum(found["shares"].values()) == pytest.approx(1)
    assert cells[0]["requests"] == cells[1]["requests"]


def test_csv(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, *QUICK, "--policy", "best,round_robin", "--clients", "closed:5", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0
    assert [row["policy"] for row in rows] == ["best", "round_robin"]
    assert rows[0].keys() >= (CELL_KEYS - {"shares"}) | {"share_s1", "share_s2", "share_s3"}
    assert rows[0]["clients"] == "closed:5:5"
    assert rows[0]["load"] == ""


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, *QUICK, "--load", "0.5,0.7", "--policy", "best,round_robin")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert [word for word in ("load", "policy", "p95 ms", "shares, %") if word in lines[0]] == [
        "load", "policy", "p95 ms", "shares, %",
    ]  # fmt: skip
    assert sum(" best " in line for line in lines) == 2
    assert sum(" 0.7 " in line for line in lines) == 1


def test_two_processes_find_the_same_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    _, one, _ = call(capsys, *QUICK, "--policy", "best", "--json")
    # A process of its own: a pool of them shares descriptors and threads with whatever else ran in this one
    arguments = (*QUICK, "--policy", "best", "--json", "--processes", "2")
    two = subprocess.run(
        [sys.executable, "-m", "lbdns_tools.sim", *arguments], check=False, capture_output=True, text=True, timeout=120
    )
    assert (two.returncode, two.stdout) == (0, one)


def test_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    status, out, _ = call(capsys, *QUICK, "--policy", "best", "--plot", str(path), "--plot-kind", "shares")
    assert status == 0
    assert f"plot: {path}" in out
    assert path.read_bytes().startswith(b"\x89PNG")


def test_presets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "--preset", "list")
    assert status == 0
    for name, preset in PRESETS.items():
        assert name in out
        assert preset.sentence in out


def test_a_preset_with_another_duration(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(
        capsys,
        "--preset",
        "report-loss",
        "--duration",
        "2",
        "--warm-up",
        "1",
        "--seeds",
        "1",
        "--json",
        "--policy",
        "best",
    )
    assert status == 0
    assert [found["loss"] for found in json.loads(out)["cells"]] == [0.0, 0.02, 0.1]


def test_what_goes_wrong_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    def figure(name: str, *more: str) -> float:
        status, out, _ = call(capsys, *QUICK, "--policy", "round_robin", "--load", "0.2", "--json", *more)
        assert status == 0
        found: float = json.loads(out)["cells"][0][name]
        return found

    def failed(*more: str) -> float:
        return figure("failed", *more)

    assert failed() == 0
    assert 0 < failed("--kill", "s3@3-5", "--check") < failed("--kill", "s3@3-5")
    assert failed("--hang", "s3@3", "--kill", "s1@3") > failed("--hang", "s3@3") > 0
    assert figure("p95_ms", "--other-work", "s1:1000@0-7") > 5 * figure("p95_ms")
    assert failed("--surge", "200@2-7") > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "a farm is required"),
        (("--servers", "T3", "--policy", "bst"), "Perhaps you meant 'best'?"),
        (("--servers", "T3", "--workload", "htm"), "Perhaps you meant 'html'?"),
        (("--server", "T3"), "--servers"),
        (("--servers", "T3", "--json", "--csv"), "--json and --csv cannot be combined"),
        (("--servers", "T3", "--from", "http://127.0.0.1:1"), "cannot be combined"),
        (("--servers", "T3", "--load", "0.5", "--rate", "3"), "--load and --rate cannot be combined"),
        (("--servers", "T3", "--plot", "x.gif"), ".png, .svg, .pdf"),
        (("--servers", "T3", "--plot-kind", "shares"), "--plot-kind requires --plot"),
        (("--servers", "T3", "--record", "x"), "--record requires --from"),
        (("--servers", "T3", "--pool", "x"), "--pool requires --from"),
        (("--servers", "T3", "--kill", "s9@30"), "there is no server named 's9'"),
        (("--servers", "T3", "--score", "thesi"), "Perhaps you meant 'thesis'?"),
        (("--preset", "herdin"), "Perhaps you meant 'herding'?"),
        (("--replay", "nowhere.jsonl"), "nowhere.jsonl: cannot read the file"),
        (("--from", "127.0.0.1:8053"), "is not a valid URL"),
        (("recrd",), "Perhaps you meant 'record'?"),
        (("--load", "0.5", "record", "http://127.0.0.1:1", "x"), "cannot be combined with the command 'record'"),
    ],
)
def test_mistakes_end_with_2_and_say_what_instead(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = call(capsys, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_nobody_there_is_a_failure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for arguments in (("--from", "http://127.0.0.1:1"), ("record", "http://127.0.0.1:1", str(path))):
        status, _, err = call(capsys, *arguments)
        assert status == 1
        assert "http://127.0.0.1:1: no response" in err
    assert not path.exists()


def test_a_record_is_not_written_over(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("precious")
    assert call(capsys, "record", "http://127.0.0.1:1", str(path))[0] == 2
    assert call(capsys, "record", "http://127.0.0.1:1", str(path), "--force")[0] == 1  # nobody to record
    assert path.read_text() == "precious"


def test_replay(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    member = {"cpu_count": 1.0, "requests": 21.0, "cpu": 0.2, "busy_workers": 1.0, "run_queue": 0.0}
    day = record({"a": member, "b": member}, 20, (15, 5))
    path = tmp_path / "day.jsonl"
    path.write_text(header_line(day.header) + "".join(event_line(event, day.members) for event in day.events))
    arguments = ("--replay", str(path), "--policy", "round_robin,oracle", "--seeds", "1")
    status, out, _ = call(capsys, *arguments, "--json")
    assert status == 0
    document = json.loads(out)
    assert [found["policy"] for found in document["cells"]] == ["round_robin", "oracle"]
    assert document["replay"]["answered"]["shares"] == {"a": 0.75, "b": 0.25}
    (replayed,) = document["replay"]["policies"]
    assert replayed["shares"]["a"] == pytest.approx(0.5, abs=0.01)
    assert replayed["diverted"] == pytest.approx(0.25, abs=0.01)
    assert any("20 answers/s counted" in note for note in document["notes"])
    picture = tmp_path / "day.svg"
    status, out, _ = call(capsys, *arguments, "--plot", str(picture))
    assert status == 0
    assert "(as answered)" in out
    assert "really answered" in picture.read_text()
    with path.open("a") as file:
        file.write("{}\n")
    status, _, err = call(capsys, *arguments)
    assert status == 2
    assert err.startswith(f"{path}:{2 + len(day.events)}: record: ")


def test_help_and_version() -> None:
    runner = CliRunner()
    help_text = runner.invoke(command, ["--help"]).output
    assert "Examples:" in help_text
    assert all(name in help_text for name in command.commands)
    assert "Examples:" in runner.invoke(command, ["record", "--help"]).output
    assert runner.invoke(command, ["--version"]).output.strip() == f"lbdns-sim {__version__}"


def test_the_page_names_every_option_and_preset() -> None:
    page = (ROOT / "docs" / "reference" / "simulator.md").read_text()
    options = [param.opts[0] for param in command.params if param.opts[0] not in ("--help", "--version")]
    assert len(options) >= len(OPTIONS)
    for option in options:
        assert f"`{option}" in page, option
    for preset in PRESETS:
        assert f"`{preset}`" in page, preset


def test_a_real_process() -> None:
    arguments = [sys.executable, "-m", "lbdns_tools.sim", *QUICK, "--policy", "best", "--json"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["cells"][0]["policy"] == "best"


def test_a_load_means_nothing_to_clients_that_wait(capsys: pytest.CaptureFixture[str]) -> None:
    clients = ("--policy", "best", "--clients", "closed:5", "--json")
    status, out, err = call(capsys, *QUICK, "--load", "0.5,0.7", *clients)
    assert status == 0
    assert "have no effect on closed-loop clients" in err
    assert json.loads(out) == json.loads(call(capsys, *QUICK, *clients)[1])
