"""Keeps a record of each lab in /var/lib/lbdns-lab, and cleans up after crashed labs (``lbdns-lab clean``).

Each lab creates its record before anything else.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.machines import network_namespaces
from lbdns_tools.lab.machines.control_groups import TOP, ControlGroup, find_hierarchies

#: Not in /run, which many systems mount noexec, because the web servers run CGI programs below this folder
REGISTRY: Final = Path("/var/lib/lbdns-lab")
_ID: Final = re.compile(r"[0-9a-f]{6}")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_TRIES: Final = 5  # attempts to write to the registry while another lab removes it because it is empty


@dataclass(frozen=True, slots=True)
class LabOwner:
    """The process that runs a lab.

    The start time and the boot ID distinguish the process from later processes with the same process ID.
    """

    pid: int
    started: int  # clock ticks after the boot
    boot: str


@dataclass(frozen=True, slots=True)
class LabTraces:
    """All objects that a lab may have created on this machine. ``owner`` is None if the lab's record is unreadable."""

    id: str
    owner: LabOwner | None
    registry: Path = REGISTRY

    @property
    def folder(self) -> Path:
        """The lab's directory, which all users can read, because the servers drop their privileges."""
        return self.registry / self.id

    @property
    def is_running(self) -> bool:
        try:
            return self.owner is not None and _owner(self.owner.pid) == self.owner
        except (OSError, ValueError):
            return False

    def remove(self) -> list[str]:
        """Remove the lab and return one line of text per removed item. Raises LbdnsError."""
        group = ControlGroup(f"{TOP}/{self.id}", find_hierarchies())
        # Processes are removed first and the record last, so that the next clean() can repeat what failed
        steps: list[Callable[[], list[str]]] = [
            lambda: _end_processes(group),
            lambda: network_namespaces.remove(self.id),
            lambda: [f"control group {group.name}"] if group.remove() else [],
            self._remove_folder,
        ]
        removed: list[str] = []
        troubles: list[str] = []
        for step in steps:
            try:
                removed += step()
            except (LbdnsError, OSError) as error:
                troubles.append(str(error))
        if troubles:
            raise LbdnsError(f"lab {self.id} could not be removed completely:\n" + "\n".join(troubles))
        self._note.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.registry.rmdir()  # fails, as intended, while the folder holds other labs
        return removed

    @property
    def _note(self) -> Path:
        return self.registry / f"{self.id}.json"

    def _remove_folder(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        shutil.rmtree(self.folder)
        return [str(self.folder)]


def new_id(registry: Path = REGISTRY) -> str:
    """Return an unused lab ID of six hexadecimal digits."""
    while True:
        id = secrets.token_hex(3)
        if not (registry / f"{id}.json").exists():
            return id


def record(id: str, registry: Path = REGISTRY) -> LabTraces:
    """Record this process as a lab's owner, and create the lab's directory.

    The caller must record the lab before creating any part of it. Raises LbdnsError.
    """
    owner = _owner(os.getpid())
    traces = LabTraces(id, owner, registry)
    for last in (*[False] * (_TRIES - 1), True):
        try:
            registry.mkdir(mode=0o755, parents=True, exist_ok=True)
            # The record is linked when complete: a process that read half a record would take the owner for dead
            part = registry / f".{id}-{os.getpid()}"
            part.write_text(json.dumps(asdict(owner)))
            try:
                os.link(part, traces._note)
            finally:
                part.unlink()
            traces.folder.mkdir(mode=0o755, exist_ok=True)
            return traces
        except FileNotFoundError:
            if last:
                raise
        except FileExistsError:
            raise LbdnsError(f"lab {id} already exists: {traces._note}") from None
        except PermissionError:
            raise LbdnsError(f"{registry}: permission denied; run the lab as root") from None
    raise AssertionError("unreachable")


def labs(registry: Path = REGISTRY) -> list[LabTraces]:
    """Return all recorded labs, including running labs and leftovers of crashed labs."""
    return [
        LabTraces(path.stem, _read_owner(path), registry)
        for path in sorted(registry.glob("*.json"))
        if _ID.fullmatch(path.stem)
    ]


def clean(all: bool = False, registry: Path = REGISTRY) -> list[str]:
    """Remove the labs whose owner has exited, or all labs if ``all`` is set. Return one line of text per removed item.
    Raises LbdnsError."""
    removed: list[str] = []
    troubles: list[str] = []
    for traces in labs(registry):
        owner = traces.owner if traces.is_running else None
        if owner and not all:
            continue
        whose = f"run by process {owner.pid}" if owner else "left behind by a process that has exited"
        removed.append(f"lab {traces.id}, {whose}")
        try:
            removed += traces.remove()
        except LbdnsError as error:
            troubles.append(str(error))
    if troubles:
        raise LbdnsError("\n".join([*troubles, *(f"removed: {line}" for line in removed)]))
    return removed


def _end_processes(group: ControlGroup) -> list[str]:
    pids = group.pids()
    group.kill()
    return [f"processes {' '.join(map(str, sorted(pids)))}"] if pids else []


def _owner(pid: int) -> LabOwner:
    """Return a ``LabOwner`` for the process ``pid``.

    Raises OSError or ValueError if the process does not exist or is a zombie.
    """
    # proc_pid_stat(5): the name in parentheses may contain any byte; field 3 is the state, 22 the start time
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    if fields[0] in (b"Z", b"X"):
        raise ValueError(f"process {pid} has ended")
    return LabOwner(pid, int(fields[19]), _BOOT_ID.read_text().strip())


def _read_owner(note: Path) -> LabOwner | None:
    try:
        return LabOwner(**json.loads(note.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
