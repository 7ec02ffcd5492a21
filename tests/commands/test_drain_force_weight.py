"""Tests of ``lbdns drain``, ``undrain``, ``force`` and ``weight`` with sockets that reply like a server."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from lbdns.cli import lbdns
from lbdns.command_line.run_command import run
from lbdns.commands.drain_force_weight import clock_time
from lbdns.model.overrides import Override
from tests.commands.test_reload import answering

NOON = time.mktime((2026, 5, 17, 12, 0, 0, 0, 0, -1))


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


def steer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(lbdns, "lbdns", list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def said(
    *in_force: Override, ended: tuple[Override, ...] = (), notes: tuple[str, ...] = (), pools: Any = ("web",)
) -> bytes:
    documents = [{**override.document(), "pools": list(pools), "text": override.text()} for override in in_force]
    answer = {
        "ok": True,
        "in_force": documents,
        "ended": [o.document() for o in ended],
        "notes": notes,
        "kept": not notes,
    }
    return json.dumps(answer).encode() + b"\n"


DRAIN = Override("drain", "gandalf.hobbit", by="root", reason="new kernel")


@pytest.mark.parametrize(
    ("arguments", "order"),
    [
        (["drain", "gandalf"], {"command": "drain"}),
        (
            ["drain", "gandalf", "--for", "2h", "--reason", " new kernel ", "--pool", "web", "--force"],
            {"command": "drain", "for_s": 7200.0, "reason": "new kernel", "pool": "web", "force": True},
        ),
        (["undrain", "gandalf", "--pool", "web"], {"command": "undrain", "pool": "web"}),
        (["force", "gandalf", "up", "--for", "30min"], {"command": "force", "to": "up", "for_s": 1800.0}),
        (["force", "gandalf", "auto"], {"command": "force", "to": "auto"}),
        (["force", "gandalf", "down", "--force"], {"command": "force", "to": "down", "force": True}),
        (["weight", "gandalf", "0.5"], {"command": "weight", "factor": 0.5}),
        (["weight", "gandalf", "1"], {"command": "weight", "factor": 1.0}),
    ],
)
def test_what_is_ordered(
    control: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], order: dict[str, Any]
) -> None:
    with answering(control, said(DRAIN)) as orders:
        assert steer(capsys, *arguments, "--control", str(control)) == (
            0, "gandalf.hobbit: drained by root: new kernel\n", "",
        )  # fmt: skip
    assert orders == [{"member": "gandalf", **order}]


def test_what_is_in_force_and_what_has_ended_is_printed(control: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tomorrow = time.time() + 86_400
    weight = Override("weight", "gandalf.hobbit", "web", 0.5, "frodo", until=tomorrow)
    with answering(control, said(weight, ended=(DRAIN,), notes=("it can't be kept",))):
        status, out, err = steer(capsys, "undrain", "gandalf", "--control", str(control))
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(tomorrow))
    assert (status, err) == (0, "note: it can't be kept\n")
    assert out.splitlines() == [
        "gandalf.hobbit: no longer drained by root: new kernel",
        f"gandalf.hobbit in pool web: weight 0.5 until {when} by frodo",
    ]


def test_the_list(control: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(control, said(DRAIN, pools=())) as orders:
        assert steer(capsys, "force", "--list", "--control", str(control)) == (
            0,
            "gandalf.hobbit: drained by root: new kernel (no pool has this member now)\n",
            "",
        )
    assert orders == [{"command": "overrides"}]


def test_an_empty_list(control: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(control, said()):
        status, out, _ = steer(capsys, "drain", "--list", "--control", str(control))
    assert (status, out) == (0, "no overrides are in force\n")


def test_what_is_refused(control: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(control, b'{"ok": false, "error": "gandalf is the last usable member"}\n'):
        assert steer(capsys, "drain", "gandalf", "--control", str(control)) == (
            1, "", "gandalf is the last usable member\n",
        )  # fmt: skip


@pytest.mark.parametrize("answer", [b'{"ok": true}\n', b'{"ok": true, "in_force": [5], "notes": []}\n'])
def test_what_can_not_be_understood(control: Path, capsys: pytest.CaptureFixture[str], answer: bytes) -> None:
    with answering(control, answer):
        status, out, err = steer(capsys, "drain", "gandalf", "--control", str(control))
    assert (status, out) == (1, "")
    assert "the same version of lbdns as this command" in err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["drain"], "Missing argument 'MEMBER'"),
        (["drain", ""], "Missing argument 'MEMBER'"),
        (["drain", "a", "b"], "unexpected extra argument"),
        (["drain", "a", "--list"], "--list takes no MEMBER"),
        (["drain", "a", "--for", "2x"], "'2x' is not a valid duration; write a duration such as 90s"),
        (["drain", "a", "--reason", "x" * 201], "at most 200 printable characters"),
        (["drain", "a", "--reason", "a\x1b[2J"], "printable characters"),
        (["undrain", "a", "--force"], "No such option"),
        (["force", "a"], "Missing argument 'up|down|auto'"),
        (["force", "a", "sideways"], "'sideways' is not one of 'up', 'down', 'auto'"),
        (["force", "a", "auto", "--for", "2h"], "auto, which ends the override"),
        (["weight", "a"], "Missing argument 'FACTOR'"),
        (["weight", "a", "1", "--for", "2h"], "1, which ends the override"),
        (["weight", "a", "0"], "0.01<=x<=100"),
        (["weight", "a", "nan"], "nan"),
        (["weight", "a", "half"], "'half' is not a valid float"),
    ],
)
def test_bad_arguments(control: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], error: str) -> None:
    status, out, err = steer(capsys, *arguments, "--control", str(control))
    assert (status, out) == (2, "")
    assert error in err


@pytest.mark.parametrize("command", ["drain", "undrain", "force", "weight"])
def test_help_has_an_example(capsys: pytest.CaptureFixture[str], command: str) -> None:
    status, out, _ = steer(capsys, command, "--help")
    assert status == 0
    assert f"  lbdns {command} gandalf" in out
    assert "Exit status: 0" in out


@pytest.mark.parametrize("command", ["drain", "undrain", "force", "weight"])
def test_nobody_there(control: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    more = {"force": ["up"], "weight": ["2"]}.get(command, [])
    status, _, err = steer(capsys, command, "gandalf", *more, "--control", str(control))
    assert status == 1
    assert f"{control}: No such file" in err


@pytest.mark.parametrize(
    ("later", "text"), [(7200, "14:00"), (90, "12:01:30"), (86_400, "2026-05-18 12:00"), (-30, "11:59:30")]
)
def test_times(later: float, text: str) -> None:
    assert clock_time(NOON + later, NOON) == text
