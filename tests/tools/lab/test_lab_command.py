"""Tests of the lbdns-lab command: error messages, output, files and exit status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lbdns.command_line.run_command import run
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools import __version__, installed_programs
from lbdns_tools.lab import lab_command
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.lab_command import PRESETS, SIGNALS, command, ends_once
from lbdns_tools.lab.machines import leftover_cleanup
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from tests.tools.lab.presets.fake_lab import FakeLab, made

Doing = Callable[[Any], Iterable[MeasuredOutcome]]
HOST = '[[host]]\nname = "a"\ncpu = 0.5\n'


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Simulate a machine with root privileges, all programs, and fake labs."""

    @contextmanager
    def lab(farm: LabFarm) -> Iterator[FakeLab]:
        yield FakeLab(farm)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(installed_programs, "is_there", lambda name: True)
    monkeypatch.setattr(lab_command, "Lab", lab)
    return monkeypatch


def done(*arguments: str, does: Doing = lambda lab: [made()]) -> int:
    """Run a study that has a single step, and return the exit status."""

    def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
        farms = {"one": farm or LabFarm((WebHost("bilbo", 0.1),))}
        return StudyPlan(farms, (StudyStep("the step", "one", 1.0, does),), lambda outcomes: [])

    return run(lab_command._study(StudyPreset("made_up", "Made up", "", plan)), "lbdns-lab", list(arguments))


def fails(error: BaseException) -> Doing:
    def do(lab: Any) -> Iterator[MeasuredOutcome]:
        yield made()
        raise error

    return do


def test_a_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert done("--out", str(tmp_path / "a" / "b")) == 0
    out, err = capsys.readouterr()
    assert out == f"report: {tmp_path}/a/b/index.html\n"
    assert "1 steps, about 1 s" in err
    assert "100 requests/s" in err
    assert {path.name for path in (tmp_path / "a" / "b").iterdir()} >= {"index.html", "results.csv", "samples.csv"}


@pytest.mark.parametrize(
    ("error", "status"), [(LbdnsError("it rained"), 1), (KeyboardInterrupt(), 130)], ids=["failed", "Ctrl-C"]
)
def test_what_was_measured_is_kept(tmp_path: Path, error: BaseException, status: int) -> None:
    assert done("--out", str(tmp_path), does=fails(error)) == status
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 2
    assert (tmp_path / "index.html").exists()


def test_a_failure_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done("--out", str(tmp_path), does=fails(LbdnsError("it rained")))
    assert "failed: the step: it rained" in capsys.readouterr().err


def test_a_mistake_of_ours_is_no_quiet_end(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        done("--out", str(tmp_path), does=fails(ZeroDivisionError()))
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 2


def test_nothing_measured_is_a_failure(tmp_path: Path) -> None:
    assert done("--out", str(tmp_path), does=lambda lab: []) == 1


def test_a_folder_that_is_not_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").touch()
    assert done("--out", str(tmp_path)) == 2
    assert f"--out: {tmp_path} is not empty; specify a new directory" in capsys.readouterr().err
    assert done("--out", str(tmp_path), "--force") == 0
    assert (tmp_path / "mine.txt").exists()


def test_resuming(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ("--out", str(tmp_path / "x"), "--resume")
    assert done(*out, does=fails(KeyboardInterrupt())) == 130
    assert done(*out) == 0
    assert "finished already" not in capsys.readouterr().err
    assert done(*out) == 0
    assert "0 steps, about 0 s; 1 steps are finished already" in capsys.readouterr().err
    assert done(*out, "--seed", "7") == 2
    assert "--resume: " in (text := capsys.readouterr().err)
    assert "the study began with seed = 1, not 7; use the same options, or a new --out" in text
    assert done("--out", str(tmp_path / "x")) == 2


def test_a_folder_that_can_not_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert done("--out", str(tmp_path / "file" / "x")) == 2
    assert "cannot create" in capsys.readouterr().err


def test_without_root(tmp_path: Path, machine: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    machine.setattr(os, "geteuid", lambda: 1000)
    assert done("--out", str(tmp_path / "x")) == 1
    assert run(command, "lbdns-lab", ["clean"]) == 1
    (tmp_path / "farm.toml").write_text(HOST)
    assert run(command, "lbdns-lab", ["farm", str(tmp_path / "farm.toml")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(
        line.startswith("lbdns-lab needs root privileges to create network namespaces and control groups; run: sudo ")
        for line in lines
    )
    assert not (tmp_path / "x").exists()


def test_what_is_not_installed(tmp_path: Path, machine: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    machine.setattr(
        installed_programs, "is_there", lambda name: name not in ("apache2", "haproxy", "nginx", "pound", "unbound")
    )
    machine.setattr(lab_command, "MODULES", ("pyroute3",))
    (tmp_path / "farm.toml").write_text(f'{HOST}[farm]\nproxies = ["haproxy", "pound"]\nresolvers = 1\n')
    assert done("--out", str(tmp_path / "x"), "--farm", str(tmp_path / "farm.toml")) == 1
    assert capsys.readouterr().err == (
        "not installed: apache2, haproxy, unbound, Python's pyroute3; "
        "run `make deps-lab` as root to install all dependencies of the lab\n"
    )
    assert not (tmp_path / "x").exists()


def test_https_needs_a_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed_programs, "is_there", lambda name: name != "openssl")
    lab_command._need([LabFarm(())])
    with pytest.raises(LbdnsError, match="not installed: openssl; "):
        lab_command._need([LabFarm((), tls=True)])


def test_php_is_needed_only_by_farms_that_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns_tools.installed_programs.is_there", lambda name: name != "memcached")
    monkeypatch.setattr(lab_command, "php_modules", list)
    lab_command._need([LabFarm(())])
    with pytest.raises(LbdnsError, match="not installed: memcached, PHP for Apache; "):
        lab_command._need([LabFarm((), php=True)])


def test_a_farm_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "farm.toml"
    path.write_text(HOST.replace("0.5", "1000"))
    farms: list[LabFarm] = []

    def does(lab: FakeLab) -> list[MeasuredOutcome]:
        farms.append(lab.farm)
        return [made()]

    assert done("--out", str(tmp_path / "x"), "--farm", str(path), does=does) == 0
    assert farms == [LabFarm((WebHost("a", 1000.0),))]
    assert f"{path}: the hosts have 1000 cores in total, but this machine has" in capsys.readouterr().err
    path.write_text(f"{HOST}cpus = 1\n")
    assert done("--out", str(tmp_path / "y"), "--farm", str(path)) == 2
    assert "unknown key. Perhaps you meant 'cpu'?" in capsys.readouterr().err


def test_clean(machine: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[bool] = []

    def clean(all: bool) -> list[str]:
        asked.append(all)
        return ["processes 1 2"] if all else []

    machine.setattr(leftover_cleanup, "clean", clean)
    assert run(command, "lbdns-lab", ["clean"]) == 0
    assert run(command, "lbdns-lab", ["clean", "--all"]) == 0
    assert capsys.readouterr().out == "nothing to remove\nprocesses 1 2\n"
    assert asked == [False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["webstone"], "Missing option '--out'"),
        (["webstone", "--out", "x", "--selections", "bset"], "unknown name 'bset'. Perhaps you meant 'best'?"),
        (["balancers", "--out", "x", "--selections", "apache"], "--selections: unknown name 'apache'"),
        (["balancers", "--out", "x", "--intervals", "1999"], "apply only to the study webstone"),
        (["farm", "none.toml"], "File 'none.toml' does not exist"),
        (["webstoen", "--out", "x"], "unknown command 'webstoen'. Perhaps you meant 'webstone'?"),
    ],
)  # fmt: skip
def test_mistakes_are_told(
    arguments: list[str], message: str, machine: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    machine.chdir(tmp_path)
    assert run(command, "lbdns-lab", arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], *([name] for name in (*PRESETS, "clean", "farm"))):
        assert run(command, "lbdns-lab", [*arguments, "--help"]) == 0
        assert " ".join(("lbdns-lab", *arguments)) in capsys.readouterr().out.split("Usage:")[1].split("\n", 1)[1]


def test_as_a_program_of_its_own() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "lbdns_tools.lab", "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (told.returncode, told.stdout) == (0, f"lbdns-lab {__version__}\n")


each_preset = pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)


@each_preset
@pytest.mark.parametrize("quick", [True, False])
def test_what_will_be_done_is_known_before(preset: StudyPreset, quick: bool) -> None:
    study = preset.plan(StudySettings(quick=quick), None)
    assert study.steps
    assert {step.farm for step in study.steps} == set(study.farms)
    assert all(step.seconds > 0 and step.name for step in study.steps)


@each_preset
def test_quick_is_quick(preset: StudyPreset) -> None:
    quick, full = (preset.plan(StudySettings(quick=quick), None).seconds for quick in (True, False))
    assert quick < min(600, full / 2)


@each_preset
def test_a_selection_that_there_is_not(preset: StudyPreset) -> None:
    with pytest.raises(ConfigError, match="--selections"):
        preset.plan(StudySettings(selections=("nobody",)), None)


@each_preset
def test_names_and_help(preset: StudyPreset) -> None:
    assert PRESETS[preset.name] is preset
    assert preset.title
    assert preset.help


@pytest.mark.parametrize("number", SIGNALS)
def test_once_is_enough(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    with ends_once():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGINT)  # while everything is put away
        os.kill(os.getpid(), signal.SIGTERM)
    assert capsys.readouterr().err == "lbdns-lab is already shutting down; please wait a few seconds\n" * 2
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_handlers_are_put_back_after_an_error() -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    with pytest.raises(ValueError, match="ours"), ends_once():
        raise ValueError("ours")
    assert [signal.getsignal(each) for each in SIGNALS] == before
