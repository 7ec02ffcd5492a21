"""Runs the commands of pages in namespaces, where the ports, addresses and paths of the documentation are free.

A sandbox has its own network (a loopback interface with the addresses of the documentation), its own processes, a copy
of /etc, and empty folders in place of /run and /var. Commands run in a scratch folder that looks like the checkout.
Nothing that they do changes the machine.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.docs.blocks import ROOT
from tests.end_to_end.process import Program, running
from tests.needs import program

#: Addresses of the DNS server, of another name server, and of the web servers in the documentation
ADDRESSES: Final = ("10.0.0.5", "192.0.2.53", "192.0.2.54", "192.0.2.1", "192.0.2.2", "192.0.2.3")
SETTINGS: Final = Path(__file__).parent / "settings"
_TIMEOUT: Final = 600  # seconds for the commands of one page; several times what they need on a slow machine


@dataclass(frozen=True)
class Sandbox:
    """Namespaces in which a setting is prepared. ``pid`` is a process in them, and ``folder`` the scratch folder."""

    pid: int
    folder: Path

    def run(self, script: str) -> tuple[int, str]:
        """Run a script of bash in the checkout of the sandbox, and return its exit status and its output."""
        path = self.folder / "page.sh"
        path.write_text(script)
        enter = [program("nsenter"), f"--target={self.pid}", "--net", "--mount", "--pid"]
        with (self.folder / "page.log").open("w+") as log:
            status = subprocess.run(
                [*enter, "bash", str(path)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                check=False, timeout=_TIMEOUT, env=environment(self.folder), start_new_session=True,
            ).returncode  # fmt: skip
            log.seek(0)
            return status, log.read()


@contextlib.contextmanager
def sandbox(setting: str, folder: Path) -> Iterator[Sandbox]:
    """Make namespaces, prepare a setting in them by the script ``settings/SETTING.sh``, and yield the sandbox."""
    checkout = folder / "checkout"
    (folder / "home").mkdir(parents=True)
    (folder / "tmp").mkdir()
    checkout.mkdir()
    for path in ROOT.iterdir():
        if path.name not in (".git", ".venv", "build", "dist"):
            (checkout / path.name).symlink_to(path)
    (checkout / ".venv").symlink_to(sys.prefix)
    shutil.copytree("/etc", folder / "etc", symlinks=True, ignore_dangling_symlinks=True)
    script = folder / "setting.sh"
    script.write_text(_prepare(setting, folder))
    unshare = (
        program("unshare"),
        "--net",
        "--mount",
        "--uts",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child=SIGKILL",
    )
    with running(*unshare, "bash", str(script), env=environment(folder)) as program_:
        program_.until((folder / "ready").exists, f"the setting {setting} is ready", seconds=_TIMEOUT)
        (pid,) = _children(program_)
        yield Sandbox(pid, folder)


def _children(parent: Program) -> list[int]:
    return [int(word) for word in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]


def _prepare(setting: str, folder: Path) -> str:
    """Return the script that makes the sandbox's files and addresses, and then runs the setting's own script."""
    words = shlex.quote(str(folder))
    return "\n".join(
        [
            "set -euo pipefail",
            f"cd {words}",
            "ip link set lo up",
            *(f"ip address add {address}/32 dev lo" for address in ADDRESSES),
            "mount --make-rprivate /",
            "mount --bind etc /etc",
            "mount -t tmpfs none /run",
            "mount -t tmpfs none /var",
            "mkdir /var/backups /var/cache /var/lib /var/log /var/tmp",
            "cd checkout",
            (SETTINGS / f"{setting}.sh").read_text(),
            f"touch {words}/ready",
            "exec sleep infinity",
        ]
    )


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of commands in a sandbox."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LBDNS_", "PYTEST_", "GIT_"))}
    return kept | {
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "PATH": f"{folder / 'checkout' / '.venv' / 'bin'}:{os.environ['PATH']}:/usr/sbin:/sbin",
        "SANDBOX": str(folder),
    }
