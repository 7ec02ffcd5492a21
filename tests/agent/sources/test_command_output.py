"""Commands that print a metric, and commands that fail, hang or print too much."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.sources.command_output import LARGEST, CommandOutput
from lbdns_agent.sources.metric_definition import CommandSource
from tests.agent.waiting import PATIENCE, run_to_end, until


def command(program: str, *arguments: str) -> CommandOutput:
    return CommandOutput(CommandSource((sys.executable, "-S", "-c", program, *arguments)))


def test_what_a_command_prints() -> None:
    output = command(
        "import sys; print(sys.argv[1:], sys.stdin.read()); print('a warning', file=sys.stderr)", "a b", "$HOME"
    )
    assert run_to_end(output.read()) == b"['a b', '$HOME'] \n", "there is no shell and no input"
    assert run_to_end(output.read()) == b"['a b', '$HOME'] \n"


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("raise SystemExit(3)", "exit status 3"),
        ("raise SystemExit('first\\nlast line')", "exit status 1: last line"),
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
        (f"print('x' * {LARGEST})", "printed more than 1024 KiB"),
        ("import os, time; os.close(1); os.close(2); time.sleep(600)", "closed its output, but did not exit"),
    ],
)
def test_commands_that_fail(program: str, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine ends processes slowly; only the last program never ends
    patience = 0.5 if "time.sleep" in program else PATIENCE
    monkeypatch.setattr("lbdns_agent.sources.command_output.EXIT_TIME", patience)
    with pytest.raises(MissingValueError, match=error):
        run_to_end(command(program).read())


def test_a_command_that_cannot_be_started() -> None:
    with pytest.raises(MissingValueError, match="/nonexistent: can't be started: No such file or directory"):
        run_to_end(CommandOutput(CommandSource(("/nonexistent",))).read())


CHILD = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    output = command(CHILD, str(path))
    steps = output.read()
    next(steps)
    until(path.exists)
    start = time.monotonic()
    with pytest.raises(MissingValueError, match="did not finish within 5 s"):
        steps.throw(TimeoutError())
    assert time.monotonic() - start < PATIENCE, "the agent does not wait for the command"
    pids = [int(pid) for pid in path.read_text().split()]
    until(lambda: not any(map(is_running, pids)))


def test_a_reading_that_is_abandoned_ends_its_command(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    output = command(CHILD, str(path))
    steps = output.read()
    next(steps)
    until(path.exists)
    steps.close()
    until(lambda: not any(is_running(int(pid)) for pid in path.read_text().split()))


def test_readings_leave_no_descriptors() -> None:
    output = command("print(1)")
    run_to_end(output.read())
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run_to_end(output.read())
    assert len(os.listdir("/proc/self/fd")) == before
