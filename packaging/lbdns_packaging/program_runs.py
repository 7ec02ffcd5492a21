"""Runs a program in a session of its own; if the run is interrupted, all its processes end, and its temporary files are
removed."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

#: Begins the name of a temporary folder; the process ID follows, so that a later run finds what is left
TEMPORARY_PREFIX: Final = "lbdns-packaging-"
_GRACE: Final = 10.0  # seconds for a program to end after SIGTERM


def run_program(
    command: Sequence[str],
    *,
    check: bool = False,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    limit: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in the working directory ``folder``; return its exit status and what it printed.

    TMPDIR names a temporary folder, which is removed when the program ends. If an exception interrupts this call, such
    as KeyboardInterrupt, every process of the program's session ends too. Raises TimeoutExpired if the program takes
    longer than ``limit`` seconds, and CalledProcessError if ``check`` is true and the program fails.
    """
    with temporary_folder() as temporary:
        process = subprocess.Popen(
            command, cwd=folder, env={**(environment or os.environ), "TMPDIR": str(temporary)}, umask=0o022,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            start_new_session=True,
        )  # fmt: skip
        try:
            output, errors = process.communicate(timeout=limit)
        except BaseException:
            end_session(process)
            raise
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output, errors)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def end_session(process: subprocess.Popen[str], grace: float = _GRACE) -> None:
    """End all processes of the session that ``process`` leads: with SIGTERM and, after ``grace`` seconds or as soon as
    the leader has ended, with SIGKILL."""
    try:
        _signal_session(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    finally:
        _signal_session(process, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new temporary folder that every user can enter, and remove it afterwards with its contents.

    File systems that are mounted below it are left alone.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY_PREFIX}{os.getpid()}-"))
    try:
        folder.chmod(0o755)  # apt downloads as another user
        yield folder
    finally:
        remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Remove a folder with its contents, except file systems that are mounted below it."""
    subprocess.run(["rm", "-rf", "--one-file-system", folder], check=False)


def _signal_session(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
