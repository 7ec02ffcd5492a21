"""Tests of programs that the build runs: results, and the end of all their processes if the run is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from lbdns_packaging.program_runs import end_session, run_program

PATIENCE = 60.0  # seconds on a busy machine
#: Starts a child, writes a temporary file, reports both, and waits for the child
SCRIPT = """\
{trap}
sleep 1000 &
touch "$TMPDIR/large"
echo "$! $TMPDIR" > {record}.new
mv {record}.new {record}
wait $!
wait $!
"""


class InterruptedRunError(Exception):
    """What the handler of SIGUSR1 raises."""


@pytest.fixture
def raising_signal() -> Iterator[signal.Signals]:
    """Yield a signal whose handler raises InterruptedRunError."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise InterruptedRunError

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


def is_running(process: int) -> bool:
    """Return whether a process exists, and is not a zombie that its new parent has not yet reaped."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_result_is_the_status_and_the_output() -> None:
    result = run_program(["sh", "-c", "echo out; echo error >&2; exit 3"])
    assert (result.returncode, result.stdout, result.stderr) == (3, "out\n", "error\n")


def test_a_checked_failure_has_the_output() -> None:
    with pytest.raises(subprocess.CalledProcessError) as error:
        run_program(["sh", "-c", "echo error >&2; exit 3"], check=True)
    assert (error.value.returncode, error.value.stderr) == (3, "error\n")


def test_folder_and_environment(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "NAME": "value"}
    result = run_program(["sh", "-c", "pwd; echo $NAME"], folder=tmp_path, environment=environment)
    assert result.stdout == f"{tmp_path}\nvalue\n"


def test_the_temporary_folder_exists_during_the_run() -> None:
    result = run_program(["sh", "-c", 'touch "$TMPDIR/file" && stat --format "%a %n" "$TMPDIR"'])
    mode, folder = result.stdout.split()
    assert mode == "755"
    assert not Path(folder).exists()


@pytest.mark.parametrize("trap", ["", "trap '' TERM"], ids=["ends", "ignores SIGTERM"])
def test_an_interrupted_run_leaves_nothing(
    trap: str, raising_signal: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lbdns_packaging.program_runs.end_session", lambda process: end_session(process, grace=0.2))
    record = tmp_path / "record"
    main = threading.main_thread().ident
    assert main

    def interrupt() -> None:
        wait_until(record.exists)
        signal.pthread_kill(main, raising_signal)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(InterruptedRunError):
        run_program(["sh", "-c", SCRIPT.format(trap=trap, record=record)])
    thread.join()
    child, temporary = record.read_text().split()
    wait_until(lambda: not is_running(int(child)))
    assert not Path(temporary).exists()


def test_a_program_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[str]] = []

    def end(process: subprocess.Popen[str]) -> None:
        started.append(process)
        end_session(process)

    monkeypatch.setattr("lbdns_packaging.program_runs.end_session", end)
    with pytest.raises(subprocess.TimeoutExpired):
        run_program(["sleep", "1000"], limit=0.05)
    assert started[0].returncode == -signal.SIGTERM
