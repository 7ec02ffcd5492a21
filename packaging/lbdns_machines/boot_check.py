"""Boots the host's own systemd, to find out whether this host can boot machines at all."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from lbdns_machines.control_groups import ControlGroups
from lbdns_machines.host_check import HostError
from lbdns_machines.machine import nspawn_command
from lbdns_machines.machine_network import MachineNetwork
from lbdns_packaging.program_runs import run_program
from lbdns_packaging.source_tree import empty_folder

NAME: Final = "boot-check"
LIMIT: Final = 60.0  # seconds; it takes a quarter of a second on an idle host
#: Folders of programs and libraries: the host's, read-only. Some of them are symbolic links.
_OF_THE_HOST: Final = ("usr", "bin", "sbin", "lib", "lib32", "lib64")
_EMPTY: Final = ("dev", "proc", "root", "run", "sys", "tmp", "var")
_UNITS: Final = "etc/systemd/system"
#: systemd starts one program, and exits with its status
_FILES: Final = {
    "etc/os-release": "ID=boot-check\n",
    "etc/machine-id": f"{1:032x}\n",
    f"{_UNITS}/default.target": "[Unit]\nDefaultDependencies=no\nRequires=boot-check.service\n",
    f"{_UNITS}/boot-check.service": (
        "[Unit]\nDefaultDependencies=no\nSuccessAction=exit-force\nSuccessActionExitStatus=0\n"
        "FailureAction=exit-force\nFailureActionExitStatus=1\n\n[Service]\nType=oneshot\nExecStart=true\n"
    ),
}


def check_boot(
    network: MachineNetwork,
    groups: ControlGroups,
    folder: Path,
    run: Callable[..., subprocess.CompletedProcess[str]] = run_program,
) -> None:
    """Boot a machine with the host's programs and an empty disk, which exits at once, as the real machines will boot.

    The disk is the new folder ``folder``, which is removed afterwards. Raises HostError with the last line of the
    console.
    """
    binds = write_disk(folder)
    options = [f"--bind-ro={path}" for path in binds]
    try:
        result = run(nspawn_command(NAME, folder, network.path, groups.make(NAME), options), limit=LIMIT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"cannot boot an empty machine: {error}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if result.returncode:
        raise HostError(f"cannot boot an empty machine: {last_line(result.stdout + result.stderr)}")


def write_disk(folder: Path, host: Path = Path("/")) -> list[Path]:
    """Write the empty disk to the new folder ``folder``; return the host's folders that must be mounted below it."""
    empty_folder(folder)
    binds = []
    for name in _OF_THE_HOST:
        if (host / name).is_symlink():
            (folder / name).symlink_to((host / name).readlink())
        elif (host / name).is_dir():
            (folder / name).mkdir()
            binds.append(host / name)
    for name in _EMPTY:
        (folder / name).mkdir()
    write_files(folder, _FILES)
    return binds


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def last_line(console: str) -> str:
    """Return the last line that is not empty, without terminal escape sequences."""
    lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", console).split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")
