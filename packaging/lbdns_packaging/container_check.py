"""Builds the Containerfile's image with podman, and runs a container of it; the script is in packaging/checks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from lbdns_packaging.program_runs import run_program
from lbdns_packaging.root_file_systems import PackagingError, RootFileSystem
from lbdns_packaging.source_tree import ROOT, empty_folder

#: The base image has the packages of mmdebstrap's variant "apt", as Debian's own image has
BASE: Final = RootFileSystem("trixie", ("apt",))
_LIMIT: Final = 600.0  # seconds on a busy machine


def check_container(out: Path, work: Path, version: str) -> None:
    """Build the image from the package of ``version`` in ``out``, and run it.

    Podman's images and containers are in a folder of ``work``, which is removed. Needs root. Raises PackagingError with
    the script's output, and TimeoutExpired.
    """
    if missing := [name for name in ("podman", "crun") if not shutil.which(name)]:
        raise PackagingError(f"{' and '.join(missing)} not found: run 'apt-get install podman crun' as root")
    if not (out / f"lbdns_{version}-1~deb13_amd64.deb").exists():
        raise PackagingError(f"{out} has no package of lbdns {version} for Debian 13: run 'make packages'")
    folder = empty_folder(work / "containers")
    checks = ROOT / "packaging" / "checks"
    script = folder / "check.sh"
    script.write_text("".join((checks / name).read_text() for name in ("functions.sh", "container_image.sh")))
    environment = {**os.environ, "FOLDER": str(folder), "SOURCE": str(ROOT), "DIST": str(out)}
    # Podman's mounts end with the mount namespace
    command = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-eux", str(script)]
    try:
        environment["BASE"] = str(BASE.archive(work / "roots"))
        result = run_program(command, environment=environment, limit=_LIMIT)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if result.returncode:
        raise PackagingError(f"the container image failed:\n{result.stdout}{result.stderr}")
