"""Checks that a lab waits until its programs are ready, monitors them, and stops them with all their children."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.programs.lab_programs import LabProgram, LabPrograms
from tests.end_to_end.process import eventually

SLEEP = ("sleep", "1000")
STUBBORN = "trap '' TERM; echo deaf; while :; do sleep 0.1; done"


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[LabPrograms]:
    with LabPrograms(tmp_path) as found:
        yield found


def shell(text: str) -> tuple[str, ...]:
    return "sh", "-c", text


def said(program: LabProgram) -> str:
    return program.log.read_text()


def alive(pid: int) -> bool:
    try:
        return b") Z" not in Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_is_waited_for(programs: LabPrograms, tmp_path: Path) -> None:
    flag = tmp_path / "ready"
    program = programs.start("web", shell(f"touch {flag}; exec sleep 1000"), ready=flag.exists)
    assert program.running
    assert flag.exists()
    programs.check()


def test_what_it_says_goes_to_its_log(programs: LabPrograms, tmp_path: Path) -> None:
    program = programs.start("web", shell("echo one; echo $WORD >&2; sleep 1000"), env={"WORD": "two"})
    assert program.log == tmp_path / "web.log"
    eventually(lambda: said(program) == "one\ntwo\n", "both lines are there")
    assert program.last_line() == "two"


def test_its_environment_is_added_to_ours(programs: LabPrograms) -> None:
    program = programs.start("web", shell("echo $PATH; sleep 1000"), env={"WORD": "two"})
    eventually(lambda: said(program) == os.environ["PATH"] + "\n", "the path is there")


def test_ended_before_it_was_ready(programs: LabPrograms) -> None:
    with pytest.raises(LbdnsError, match=r"^web exited unexpectedly with exit status 3: no such module$"):
        programs.start("web", shell("echo loading; echo no such module; echo; exit 3"), ready=lambda: False)
    programs.check()  # nobody is told twice


def test_killed_before_it_was_ready(programs: LabPrograms, tmp_path: Path) -> None:
    with pytest.raises(LbdnsError, match=rf"^web exited unexpectedly after signal 9: no output in {tmp_path}/web.log$"):
        programs.start("web", shell("kill -9 $$"), ready=lambda: False)


def test_not_ready_in_time(programs: LabPrograms, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = f"echo I think; echo $$ > {pids}; exec sleep 1000"

    def is_ready() -> bool:
        eventually(lambda: pids.exists() and pids.read_text(), "it has begun")
        return False

    with pytest.raises(LbdnsError, match=r"^web was not ready after 0.5 s: I think$"):
        programs.start("web", shell(code), ready=is_ready, seconds=0.5)
    assert not alive(int(pids.read_text()))


def test_error_of_the_question_itself(programs: LabPrograms, tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    def ask() -> bool:
        eventually(lambda: pids.exists() and pids.read_text(), "it has begun")
        raise LbdnsError("no way to ask")

    with pytest.raises(LbdnsError, match="no way to ask"):
        programs.start("web", shell(f"echo $$ > {pids}; exec sleep 1000"), ready=ask)
    assert not alive(int(pids.read_text()))


def test_no_such_program(programs: LabPrograms) -> None:
    with pytest.raises(LbdnsError, match=r"^cannot start web: /nowhere/httpd: No such file or directory$"):
        programs.start("web", ("/nowhere/httpd",))
    programs.check()


def test_last_line_is_of_this_run(programs: LabPrograms) -> None:
    first = programs.start("web", shell("echo first; sleep 1000"))
    eventually(lambda: said(first), "it has spoken")
    first.stop()
    second = programs.start("web", SLEEP)
    assert "no output in" in second.last_line()
    assert said(second) == "first\n"


def test_check_tells_who_has_ended(programs: LabPrograms) -> None:
    ended = [programs.start(name, shell(f"echo {name} is gone; exit 1")) for name in ("one", "two")]
    stopped = programs.start("three", SLEEP)
    programs.start("four", SLEEP)
    stopped.stop()
    eventually(lambda: not any(program.running for program in ended), "both have ended")
    for _ in range(2):
        with pytest.raises(LbdnsError) as caught:
            programs.check()
        assert str(caught.value).splitlines() == [
            "one exited unexpectedly with exit status 1: one is gone",
            "two exited unexpectedly with exit status 1: two is gone",
        ]


def test_stopped_by_a_signal_that_it_heeds(programs: LabPrograms) -> None:
    program = programs.start(
        "web", shell("trap 'echo well; exit' TERM; echo up; while :; do sleep 0.02; done"), seconds=60
    )
    eventually(lambda: said(program), "it is up")
    program.stop()
    assert not program.running
    assert said(program) == "up\nwell\n"
    program.stop()  # again does nothing
    programs.check()


def test_stopped_by_force(programs: LabPrograms) -> None:
    program = programs.start("web", shell(STUBBORN))
    eventually(lambda: said(program), "it no longer listens")
    began = time.monotonic()
    program.stop(seconds=0.3)
    assert not alive(program.pid)
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_children_go_with_it(programs: LabPrograms, number: signal.Signals) -> None:
    program = programs.start("web", shell("sleep 1000 & echo $!; exec sleep 1000"))
    eventually(lambda: said(program), "the child's number is there")
    child = int(said(program))
    assert alive(child)
    program.stop(number)
    eventually(lambda: not alive(child), "the child is gone")


def test_all_are_asked_to_end_last_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    ask = LabProgram.begin_stop

    def note_and_ask(program: LabProgram) -> None:
        asked.append(program.name)
        ask(program)

    monkeypatch.setattr(LabProgram, "begin_stop", note_and_ask)
    with LabPrograms(tmp_path) as programs:
        started = [programs.start(name, SLEEP) for name in ("dns", "web", "agent")]
    assert asked == ["agent", "web", "dns"]
    assert not any(program.running for program in started)


def test_ctrl_c_while_they_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = LabPrograms(tmp_path)
    program = programs.start("web", shell(STUBBORN))
    eventually(lambda: said(program), "it no longer listens")

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("lbdns_tools.lab.programs.lab_programs.time.sleep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            programs.close()
    assert not program.running
    assert not alive(program.pid)


def test_ctrl_c_of_the_terminal_is_not_theirs(programs: LabPrograms) -> None:
    program = programs.start("web", (sys.executable, "-S", "-c", "import os; print(os.getsid(0)); input()"))
    eventually(lambda: said(program), "its session is there")
    assert said(program).split()[0] == str(program.pid)
