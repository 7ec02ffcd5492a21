"""Boots a root file system with its own kernel in QEMU, without KVM, and returns what a script in it prints."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lbdns_machines.host_check import HostError
from lbdns_machines.machine import MachineError
from lbdns_packaging.program_runs import run_program

QEMU: Final = "qemu-system-x86_64"
_MAKE_DISK: Final = "mke2fs"
_DISK: Final = "3G"  # sparse
_BOOT_AND_RUN_LIMIT: Final = 1800.0  # seconds; took 12 minutes on a host with 25 busy processes for 2 cores
_LINES: Final = 30  # of the console that an error message shows
_UNIT: Final = "etc/systemd/system/measure.service"
#: The first serial port is the console; the script prints to the second one. The last line shows that it succeeded.
_DONE: Final = "measure: done\n"
_FILES: Final = {
    "etc/hostname": "vm\n",
    "etc/hosts": "127.0.0.1 localhost vm\n",
    "root/measure.sh": (
        f"#!/bin/sh -eu\nexec > /dev/ttyS1 2> /dev/console\ncd /root\n{{script}}printf '{_DONE[:-1]}\\n'\n"
    ),
    # The script decides which other services run
    "etc/systemd/system/default.target": "[Unit]\nRequires=measure.service\n",
    _UNIT: (
        "[Unit]\nSuccessAction=poweroff-force\nFailureAction=poweroff-force\n\n"
        "[Service]\nType=oneshot\nExecStart=/root/measure.sh\n"
    ),
}


def check_programs() -> None:
    """Raise HostError if a program is missing."""
    for program, package in ((QEMU, "qemu-system-x86"), (_MAKE_DISK, "e2fsprogs")):
        if not shutil.which(program):
            raise HostError(f"{program} not found: run 'apt-get install --no-install-recommends {package}' as root")


def run_in_virtual_machine(root: Path, script: str, files: Mapping[str, Path], folder: Path) -> str:
    """Boot the root file system ``root``, and return what the shell commands in ``script`` print to standard output.

    ``files`` maps names in root's home, the script's working directory, to the files to copy there. ``root`` must
    contain systemd and a kernel with its initial RAM disk. The folder ``folder`` gets the disk, which is removed, and
    ``console.log``. Raises MachineError with the end of the console if the script fails.
    """
    _prepare(root, script, files)
    disk, console, output = folder / "disk", folder / "console.log", folder / "output"
    try:
        run_program([_MAKE_DISK, "-q", "-t", "ext4", "-d", str(root), str(disk), _DISK], check=True)
        run_program(qemu_command(root, disk, console, output), check=True, limit=_BOOT_AND_RUN_LIMIT)
    except subprocess.TimeoutExpired:
        pass
    finally:
        disk.unlink(missing_ok=True)
    text = output.read_text(errors="replace").replace("\r", "") if output.exists() else ""
    if not text.endswith(_DONE):
        last = console.read_text(errors="replace").splitlines()[-_LINES:] if console.exists() else []
        raise MachineError("\n".join(["the virtual machine's script did not succeed", *last, text]))
    return text.removesuffix(_DONE)


def qemu_command(root: Path, disk: Path, console: Path, output: Path) -> list[str]:
    """Return the command that boots ``disk`` with the kernel in ``root``; raises MachineError if there is none."""
    try:
        (kernel,), (memory_disk,) = (list((root / "boot").glob(f"{name}-*")) for name in ("vmlinuz", "initrd.img"))
    except ValueError:
        raise MachineError(f"{root}/boot does not contain exactly one kernel and initial RAM disk") from None
    return [
        QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024",
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-kernel", str(kernel), "-initrd", str(memory_disk),
        "-append", "root=/dev/vda rw console=ttyS0 panic=-1 systemd.unified_cgroup_hierarchy=1",
        "-drive", f"file={disk},format=raw,if=virtio,cache=unsafe",
        "-serial", f"file:{console}", "-serial", f"file:{output}",
    ]  # fmt: skip


def _prepare(root: Path, script: str, files: Mapping[str, Path]) -> None:
    for name, text in _FILES.items():
        path = root / name
        path.write_text(text.replace("{script}", script))
        path.chmod(0o755 if path.suffix == ".sh" else 0o644)
    for name, source in files.items():
        shutil.copy(source, root / "root" / name)
