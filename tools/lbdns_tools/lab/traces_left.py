"""What a lab has made on this machine: noted before it is made, so that all of it can be removed after a crash."""

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

from lbdns.errors import LbdnsError
from lbdns_tools.lab import network
from lbdns_tools.lab.groups import TOP, Group, find_hierarchies

#: Not in /run, which forbids programs on many systems: the web servers' CGI programs are below it
REGISTRY: Final = Path("/var/lib/lbdns-lab")
_ID: Final = re.compile(r"[0-9a-f]{6}")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_TRIES: Final = 5  # of writing to the registry while another lab removes it, because it was empty


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that a lab lives as long as. Its number may go to another in time; the rest tells them apart."""

    pid: int
    started: int  # clock ticks since the machine was
    boot: str

    @property
    def is_alive(self) -> bool:
        try:
            return _owner(self.pid) == self
        except (OSError, ValueError):
            return False


@dataclass(frozen=True, slots=True)
class Traces:
    """What there may be of one lab. ``owner`` is None if what was noted can't be read."""

    id: str
    owner: Owner | None
    registry: Path = REGISTRY

    @property
    def folder(self) -> Path:
        """The lab's own folder, readable by all: servers give their privileges up."""
        return self.registry / self.id

    @property
    def is_running(self) -> bool:
        return self.owner is not None and self.owner.is_alive

    def remove(self) -> list[str]:
        """Remove everything: processes first, the note last, so that what fails is tried again by the next clean().

        What was removed, a line each. Raises LbdnsError.
        """
        group = Group(f"{TOP}/{self.id}", find_hierarchies())
        steps: list[Callable[[], list[str]]] = [
            lambda: _end_processes(group),
            lambda: network.remove(self.id),
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
            raise LbdnsError(f"lab {self.id} could not be removed whole:\n" + "\n".join(troubles))
        self._note.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.registry.rmdir()  # unless there are others
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
    """Six hexadecimal digits that no lab has."""
    while True:
        id = secrets.token_hex(3)
        if not (registry / f"{id}.json").exists():
            return id


def record(id: str, registry: Path = REGISTRY) -> Traces:
    """Note that this process makes a lab, and make its folder. To be called before anything else. Raises LbdnsError."""
    traces = Traces(id, _owner(os.getpid()), registry)
    assert traces.owner is not None
    for last in (*[False] * (_TRIES - 1), True):
        try:
            registry.mkdir(mode=0o755, parents=True, exist_ok=True)
            # Whole or not at all: nobody may find half a note and take its owner for dead
            part = registry / f".{id}-{os.getpid()}"
            part.write_text(json.dumps(asdict(traces.owner)))
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
            raise LbdnsError(f"there is a lab {id} already: {traces._note}") from None
        except PermissionError:
            raise LbdnsError(f"{registry}: the lab needs root: run it as root") from None
    raise AssertionError("unreachable")


def labs(registry: Path = REGISTRY) -> list[Traces]:
    """All labs there are, or of which something is left."""
    return [
        Traces(path.stem, _read_owner(path), registry)
        for path in sorted(registry.glob("*.json"))
        if _ID.fullmatch(path.stem)
    ]


def clean(all: bool = False, registry: Path = REGISTRY) -> list[str]:
    """Remove the labs whose owner is dead, or ``all``: those that run lose their processes first.

    What was removed, a line each. Raises LbdnsError, after everything else was removed.
    """
    removed: list[str] = []
    troubles: list[str] = []
    for traces in labs(registry):
        if traces.is_running and not all:
            continue
        if traces.is_running:
            assert traces.owner is not None
            removed.append(f"lab {traces.id}, which process {traces.owner.pid} was running")
        else:
            removed.append(f"lab {traces.id}, left by a process that is gone")
        try:
            removed += traces.remove()
        except LbdnsError as error:
            troubles.append(str(error))
    if troubles:
        raise LbdnsError("\n".join([*troubles, *(f"removed: {line}" for line in removed)]))
    return removed


def _end_processes(group: Group) -> list[str]:
    pids = group.pids()
    group.kill()
    return [f"processes {' '.join(map(str, sorted(pids)))}"] if pids else []


def _owner(pid: int) -> Owner:
    """A process that is there. Raises OSError, ValueError if it isn't, or has ended and nobody has looked yet."""
    # proc_pid_stat(5): the name in parentheses may hold anything; field 3 is the state, 22 the time it was started
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    if fields[0] in (b"Z", b"X"):
        raise ValueError(f"process {pid} has ended")
    return Owner(pid, int(fields[19]), _BOOT_ID.read_text().strip())


def _read_owner(note: Path) -> Owner | None:
    try:
        return Owner(**json.loads(note.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
