"""Checks that child processes never outlive their parent, however the parent ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lbdns.demo.child_processes import ChildProcesses
from tests.end_to_end.process import alive, eventually

#: Writes its pid to the file given and waits; ends with status 0 on SIGTERM
PATIENT = (
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
    "open(sys.argv[1] + '.new', 'w').write(str(os.getpid())); os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
    "time.sleep(600)\n"
)
STUBBORN = PATIENT.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN")
#: Starts a grandchild in its own session that ignores everything
PARENT = (
    "import subprocess, sys, time\n"
    f"subprocess.Popen([sys.executable, '-c', {STUBBORN!r}, sys.argv[1]])\n"
    "time.sleep(600)\n"
)


def pid_in(path: Path) -> int:
    eventually(path.exists, f"{path} is written")
    return int(path.read_text())


def is_alive(pid: int) -> bool:
    return bool(alive({pid}))


def start(children: ChildProcesses, code: str, path: Path) -> int:
    children.start("a child", [sys.executable, "-c", code, str(path)])
    return pid_in(path)


def test_leaving_ends_them(tmp_path: Path) -> None:
    with ChildProcesses() as children:
        pids = [start(children, PATIENT, tmp_path / str(i)) for i in range(3)]
        assert not children.first_end()
        assert all(map(is_alive, pids))
    assert not any(map(is_alive, pids))


def test_also_one_that_does_not_listen_and_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns.demo.child_processes._PATIENCE", 0.2)
    with ChildProcesses() as children:
        stubborn = start(children, STUBBORN, tmp_path / "stubborn")
        grandchild = start(children, PARENT, tmp_path / "grandchild")
    eventually(lambda: not is_alive(stubborn) and not is_alive(grandchild), "both are gone")


def test_an_exception_ends_them_too(tmp_path: Path) -> None:
    pids: list[int] = []

    def run() -> None:
        with ChildProcesses() as children:
            pids.append(start(children, PATIENT, tmp_path / "x"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert not is_alive(pids[0])


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("import sys; sys.exit(3)", "the web server exited with status 3"),
        ("import os; os.kill(os.getpid(), 9)", "the web server was killed by SIGKILL"),
    ],
)
def test_one_that_ended_says_how(code: str, ending: str) -> None:
    with ChildProcesses() as children:
        children.start("the web server", [sys.executable, "-c", code])
        eventually(lambda: bool(children.first_end()), "it ended")
        assert children.first_end() == ending


def test_ctrl_c_reaches_them_through_their_parent_only(tmp_path: Path) -> None:
    with ChildProcesses() as children:
        pid = start(children, PATIENT, tmp_path / "x")
        assert os.getsid(pid) == pid


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_parent_that_is_killed_takes_them_along(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import sys, time\nfrom lbdns.demo.child_processes import ChildProcesses\n"
        f"ChildProcesses().start('x', [sys.executable, '-c', {PATIENT!r}, {str(tmp_path / 'x')!r}])\ntime.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    pid = pid_in(tmp_path / "x")
    parent.send_signal(number)
    parent.wait(60)
    eventually(lambda: not is_alive(pid), "the child is gone")
