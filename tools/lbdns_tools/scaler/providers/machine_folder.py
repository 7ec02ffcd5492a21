"""The folder of a local machine: the requested state, the machine's progress, and whether the machine is running.

The machine's supervisor holds a lock on the file ``lock`` for as long as it runs. It inherits the lock from the process
that starts it, so a started machine never appears to be stopped. The provider alone writes ``request.json``, and the
supervisor alone writes ``progress.json``.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from lbdns.process.atomic_file import replace_file
from lbdns_tools.scaler.providers.provider import Machine, MachineStatus, ProviderError

Wanted = Literal["running", "stopped", "deleted"]
KEY_FILE: Final = "agent.key"
LOG_FILE: Final = "log"
MACHINE_FILE: Final = "machine.json"
_LOCK_FILE: Final = "lock"
_REQUEST_FILE: Final = "request.json"
_PROGRESS_FILE: Final = "progress.json"
_START_TIME: Final = 19  # index of field 22 of /proc/PID/stat, counted from field 3 (proc_pid_stat(5))


@dataclass(frozen=True, slots=True)
class LocalMachine:
    """The properties of a local machine that never change."""

    name: str
    farm: str
    address: str
    port: int
    workers: int  # requests that the web server serves concurrently
    boot_delay: float  # s from a start until the web server and the agent are started
    boot_fails: bool  # whether each start ends with an injected failure
    agent: tuple[str, ...]  # options of the agent
    lab: str = ""  # ID of the lab whose network the machine joins; empty: it has a loopback address
    cpu: float = 0.0  # cores; only in a lab
    memory: int = 0  # bytes, 0: no limit; only in a lab


@dataclass(frozen=True, slots=True)
class Request:
    """The status that was requested for the machine, and the Unix time of the request."""

    wanted: Wanted
    since: float


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the machine's current run, and the identity of its supervisor."""

    pid: int = 0
    start_time: int = 0  # of the supervisor, in clock ticks since the system's start; with pid, it is never reused
    booted: bool = False
    failure: str = ""


class MachineFolder:
    """The files of one machine. Methods raise ProviderError if a file cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return self.path.name

    def machine(self) -> LocalMachine:
        values = self._read(MACHINE_FILE)
        try:
            return LocalMachine(**{**values, "agent": tuple(values["agent"])})
        except (KeyError, TypeError) as error:
            raise ProviderError(
                f"{self.path / MACHINE_FILE}: the file was not written by lbdns-scaler ({error})"
            ) from None

    def request(self) -> Request:
        values = self._read(_REQUEST_FILE)
        try:
            return Request(**values)
        except TypeError as error:
            raise ProviderError(
                f"{self.path / _REQUEST_FILE}: the file was not written by lbdns-scaler ({error})"
            ) from None

    def progress(self) -> Progress:
        """Return the progress of the last run, or an empty ``Progress`` if the supervisor has not yet written its
        file."""
        if not (self.path / _PROGRESS_FILE).exists():
            return Progress()
        return Progress(**self._read(_PROGRESS_FILE))

    def write_machine(self, machine: LocalMachine) -> None:
        self._write(MACHINE_FILE, asdict(machine))

    def write_request(self, wanted: Wanted, since: float) -> None:
        self._write(_REQUEST_FILE, asdict(Request(wanted, since)))

    def write_progress(self, progress: Progress) -> None:
        self._write(_PROGRESS_FILE, asdict(progress))

    def clear_progress(self) -> None:
        """Forget the previous run. The caller must hold the lock."""
        (self.path / _PROGRESS_FILE).unlink(missing_ok=True)

    def lock(self) -> int | None:
        """Return a descriptor that holds the machine's lock, or None if the machine is running. Raises
        ProviderError."""
        try:
            descriptor = os.open(self.path / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ProviderError(f"{self.path}: cannot open the lock: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def runs(self) -> bool:
        """Return whether the machine's supervisor is running."""
        descriptor = self.lock()
        if descriptor is None:
            return True
        os.close(descriptor)
        return False

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor of the current run.

        Does nothing if the supervisor has ended or has not yet written its ID. A supervisor that has not yet written
        its ID needs no signal, because it reads the request after writing its ID.
        """
        progress = self.progress()
        if not progress.pid:
            return
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(progress.pid)
            try:
                # Only now: the descriptor belongs to one process, even if the ID is used again
                if start_time(progress.pid) == progress.start_time:
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)

    def state(self) -> Machine:
        """Return the machine as the scaler sees it."""
        runs = self.runs()  # first, since a supervisor writes its progress before it ends
        machine, request, progress = self.machine(), self.request(), self.progress()
        status, detail = _status(request, progress, runs)
        if status is MachineStatus.FAILED and not detail:
            detail = f"the server's processes ended unexpectedly: {self.last_line()}"
        return Machine(self.name, status, (machine.address,), request.since if runs else 0.0, detail)

    def last_line(self) -> str:
        """Return the last line that the machine's processes have printed."""
        try:
            lines = (self.path / LOG_FILE).read_text("utf-8", "replace").splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "they printed nothing"

    def _read(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            values = json.loads(path.read_text("utf-8"))
        except OSError as error:
            raise ProviderError(f"{path}: cannot read the file: {error.strerror}") from None
        except ValueError as error:
            raise ProviderError(f"{path}: not valid JSON: {error}") from None
        if not isinstance(values, dict):
            raise ProviderError(f"{path}: must contain a JSON object")
        return values

    def _write(self, name: str, values: dict[str, Any]) -> None:
        try:
            replace_file(self.path / name, json.dumps(values) + "\n", 0o600)
        except OSError as error:
            raise ProviderError(f"{self.path / name}: cannot write the file: {error.strerror}") from None


def _status(request: Request, progress: Progress, runs: bool) -> tuple[MachineStatus, str]:
    match request.wanted:
        case "deleted":
            return MachineStatus.DELETING, ""
        case "stopped":
            return (MachineStatus.STOPPING if runs else MachineStatus.STOPPED), ""
    if not runs:
        return MachineStatus.FAILED, progress.failure
    return (MachineStatus.RUNNING if progress.booted else MachineStatus.BUILDING), ""


def start_time(pid: int) -> int:
    """Return the start time of a process in clock ticks, or 0 if there is no such process."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(line[line.rfind(b")") + 2 :].split()[_START_TIME])
