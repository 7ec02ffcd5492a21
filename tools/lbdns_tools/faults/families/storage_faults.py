"""Faults in the disk that contains state_dir, and in the history file."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lbdns_tools import installed_programs
from lbdns_tools.faults.fault import Fault, Limits
from lbdns_tools.faults.fault_bed import FaultBed

DISK: Final = "4m"  # size of the small disk
RETRIED_S: Final = 25.0  # s within which the history is written again: it retries every 10 s and commits every 5 s
SIDE_FILES: Final = ("", "-wal", "-shm")


def mount(folder: Path, *options: str) -> None:
    """Mount a small tmpfs at ``folder``. The tmpfs disappears with the mount namespace."""
    subprocess.run(
        [installed_programs.path_of("mount"), "-t", "tmpfs", "-o", ",".join((f"size={DISK}", *options)), "lbdns-faults",
         str(folder)], check=True, capture_output=True,
    )  # fmt: skip


def remount(folder: Path, option: str) -> None:
    subprocess.run(
        [installed_programs.path_of("mount"), "-o", f"remount,{option}", str(folder)], check=True, capture_output=True
    )


def restart_on_small_disk(bed: FaultBed, *options: str) -> None:
    """Restart the server with its state_dir on a separate small disk."""
    bed.farm.server.stop()
    mount(bed.farm.state, *options)
    bed.farm.start_server()
    bed.awaits(bed.all_usable, "all members are usable after the restart", 15)
    bed.awaits(bed.answers, "queries are answered after the restart", 15)


def history(bed: FaultBed) -> dict[str, object]:
    found: dict[str, object] = bed.farm.status()["server"].get("history", {})
    return found


def records(bed: FaultBed) -> Callable[[], bool]:
    """Return a function that checks whether the history works and contains values recorded after this call."""
    server = bed.farm.status()["server"]
    began: float = server.get("started", 0.0) + server.get("uptime_s", 0.0)

    def check() -> bool:
        if not history(bed).get("ok"):
            return False
        return bed.farm.has_history(began)

    return check


def fill(folder: Path) -> Path:
    """Create a file in ``folder`` that fills the disk, and return its path."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as output:
        try:
            while True:
                output.write(bytes(65536))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    return filler


def disk_full(bed: FaultBed) -> None:
    restart_on_small_disk(bed)
    bed.begin()
    filler = fill(bed.farm.state)
    reply = bed.farm.control("weight", member="frodo", factor=0.5)
    bed.expect(not reply["kept"], "the disk was full, but the reply to a command states that the override was saved")
    bed.keep(8.0)
    bed.expect(
        not history(bed).get("ok"), "the disk was full, but the status states that the history is being recorded"
    )
    bed.expect(bed.is_healthy(), "/healthz does not respond with 200 while the disk is full")
    bed.ease()
    filler.unlink()
    bed.recovers(records(bed), "the server resumes recording the history", RETRIED_S)
    reply = bed.farm.control("weight", member="frodo", factor=1)
    bed.expect(reply["kept"], "overrides are not saved, although the disk has free space again")


def disk_read_only(bed: FaultBed) -> None:
    restart_on_small_disk(bed, "ro")
    bed.begin()
    reply = bed.farm.control("weight", member="frodo", factor=0.5)
    bed.expect(not reply["kept"], "the reply to a command claims that the override was saved")
    bed.awaits(
        lambda: not history(bed).get("ok"), "the status states that the history is not being recorded", RETRIED_S
    )
    bed.ease()
    remount(bed.farm.state, "rw")
    bed.recovers(records(bed), "the server records the history", RETRIED_S)
    reply = bed.farm.control("weight", member="frodo", factor=1)
    bed.expect(reply["kept"], "overrides are not saved, although the disk is writable")


def await_history(bed: FaultBed) -> Path:
    """Wait until the history file contains values, and return its path."""
    path = bed.farm.state / "history.db"
    recorded = records(bed)
    bed.awaits(lambda: path.exists() and recorded(), "the server records the history before the fault", RETRIED_S)
    return path


def history_locked(bed: FaultBed) -> None:
    path = await_history(bed)
    connection = sqlite3.connect(path, timeout=5, isolation_level=None)
    bed.begin()
    try:
        connection.execute("BEGIN EXCLUSIVE")
        bed.keep(8.0)
        bed.expect(bed.is_healthy(), "/healthz does not respond with 200 while the history is locked")
        connection.execute("ROLLBACK")
    finally:
        connection.close()
    bed.ease()
    bed.recovers(records(bed), "the server resumes recording the history", RETRIED_S)


def history_corrupt(bed: FaultBed) -> None:
    path = await_history(bed)
    bed.begin()
    size = path.stat().st_size
    with path.open("r+b") as file:
        for at in range(0, size, 4096):
            file.seek(at)
            file.write(bed.chance.randbytes(min(2048, size - at)))
        file.flush()
        os.fsync(file.fileno())
    bed.ease()
    bed.recovers(records(bed), "the server resumes recording the history", 2 * RETRIED_S)
    bed.expect(bed.is_healthy(), "/healthz does not respond with 200")


def history_deleted(bed: FaultBed) -> None:
    path = await_history(bed)
    bed.begin()
    for end in SIDE_FILES:
        path.with_name(path.name + end).unlink(missing_ok=True)
    bed.ease()
    recorded = records(bed)
    bed.recovers(lambda: path.exists() and recorded(), "the server records the history in a new file", RETRIED_S)


def state_dir_deleted(bed: FaultBed) -> None:
    await_history(bed)
    bed.begin()
    bed.farm.state.rename(bed.folder / "moved")
    reply = bed.farm.control("weight", member="frodo", factor=0.5)
    bed.expect(bed.is_healthy(), "/healthz does not respond with 200")
    bed.notes["kept"] = reply["kept"]
    bed.ease()
    bed.farm.state.mkdir(exist_ok=True)
    bed.recovers(records(bed), "the server resumes recording the history", RETRIED_S)


_LIMITS: Final = Limits(recover_s=2 * RETRIED_S)
_GOES_ON: Final = "no query is lost; the server resumes recording the history"
FAULTS: Final = (
    Fault("storage.full", "the disk that contains state_dir is full, and space is freed later",
          f"{_GOES_ON}; replies to commands state that overrides are not saved", disk_full, _LIMITS, quick=True,
          needs=("mounts",)),
    Fault("storage.read-only", "state_dir is read-only at the start and becomes writable later",
          f"the server starts; {_GOES_ON}", disk_read_only, _LIMITS, needs=("mounts",)),
    Fault("storage.history-locked", "another process locks history.db for 8 s", _GOES_ON, history_locked, _LIMITS),
    Fault("storage.history-corrupt", "half of each page of history.db is overwritten", _GOES_ON, history_corrupt,
          _LIMITS),
    Fault("storage.history-deleted", "history.db is deleted", _GOES_ON, history_deleted, _LIMITS),
    Fault("storage.state-dir-moved", "state_dir is moved away, and an empty directory takes its place", _GOES_ON,
          state_dir_deleted, _LIMITS),
)  # fmt: skip
