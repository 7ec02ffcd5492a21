"""Upgrades and downgrades the server's package under load, in a machine that runs systemd (packaging/checks)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from lbdns_packaging.debian_releases import DebianRelease
from lbdns_packaging.install_checks import SERVER_ROOTS
from lbdns_packaging.newer_packages import make_newer_packages, newer_packages
from lbdns_packaging.root_file_systems import PackagingError, boot_command

#: Queries per second, which the environment can change for a slow machine
RATE_VARIABLE: Final = "LBDNS_UPGRADE_RATE"
_RATE: Final = "2000"
_LONGEST: Final = 900  # seconds on a busy machine
_BOOT: Final = 120  # seconds for the start of the machine
_UNIT: Final = """\
[Unit]
SuccessAction=exit-force
SuccessActionExitStatus=0
FailureAction=exit-force
FailureActionExitStatus=1

[Service]
Type=exec
ExecStartPre=touch /booted
ExecStart=/bin/sh -eux /check.sh
Environment={environment}
RuntimeMaxSec={longest}
StandardOutput=append:/check.log
StandardError=append:/check.log
"""


class SkippedCheckError(Exception):
    """This machine cannot run a check; the message says why."""


def check_upgrade(release: DebianRelease, checks: Path, out: Path, work: Path, version: str) -> list[str]:
    """Run ``server_upgrade.sh`` in the folder ``checks`` with the package in ``out``; return a line for each step.

    Needs root. Raises PackagingError with the script's output, or SkippedCheckError if the machine does not boot.
    """
    root = SERVER_ROOTS[release.codename].unpack(work / "roots", work / "machine-root")
    package = out / f"lbdns_{version}-1~deb{release.number}_amd64.deb"
    make_newer_packages(package, root / "newer", version)
    shutil.copy(checks / "query_load.py", root)
    script = (checks / "functions.sh").read_text() + (checks / "server_upgrade.sh").read_text()
    (root / "check.sh").write_text(script)
    environment = {
        "VERSION": version,
        "RELEASE": str(release.number),
        "NEWER": newer_packages(version)[0].version,
        "RATE": os.environ.get(RATE_VARIABLE, _RATE),
    }
    unit = _UNIT.format(environment=" ".join(f"{k}={v}" for k, v in environment.items()), longest=_LONGEST - _BOOT)
    units = root / "etc" / "systemd" / "system"
    (units / "check.service").write_text(unit)
    wants = units / "multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "check.service").symlink_to("../check.service")
    console = _boot(root, out)
    log = root / "check.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    if not (root / "booted").exists():
        raise SkippedCheckError(f"systemd-nspawn cannot boot a machine here: {last_line(console.stdout)}")
    if console.returncode or not (root / "passed").exists():
        raise PackagingError(f"the upgrade on {release.codename} fails:\n{text}")
    return results(text)


def results(log: str) -> list[str]:
    """Return the lines of the script's output that state what was measured."""
    return re.findall(r"^RESULT (.+)$", log, re.MULTILINE)


def last_line(console: str) -> str:
    """Return the last line that is not empty, without terminal escape sequences."""
    lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", console).split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")


def _boot(root: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Run the machine until it exits. After the time limit, it is stopped and counts as failed."""
    command = ["timeout", "--kill-after=30", str(_LONGEST), *boot_command(root, binds={out: "/dist"})]
    return subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
