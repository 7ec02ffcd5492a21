"""Loads the compiled parts of the server's arm64 package under qemu, in an arm64 root file system."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from lbdns_packaging.debian_releases import DebianRelease
from lbdns_packaging.root_file_systems import PackagingError, RootFileSystem
from lbdns_packaging.server_environment import PREFIX

_EMULATOR: Final = "qemu-aarch64-static"
#: Creates an object of the native extension, and imports the compiled modules of other projects
_PROGRAM: Final = (
    "import lbdns_native, msgpack, psutil; from multidict import _multidict; from msgpack import _cmsgpack; "
    "from lbdns.answering.plane import AVAILABLE; assert AVAILABLE; lbdns_native.DatagramBatch(); "
    "import platform; print(platform.machine())"
)


def check_arm64(release: DebianRelease, out: Path, work: Path, version: str) -> None:
    """Unpack the package for ``release``, which is in ``out``, and load its compiled parts. Needs root. Raises
    PackagingError."""
    emulator = shutil.which(_EMULATOR)
    if not emulator:
        raise PackagingError(f"{_EMULATOR} not found: run 'make deps-packaging' as root")
    # Unpacked only, since the host cannot run what configures the packages
    system = RootFileSystem(release.codename, (f"python{release.python}", "python3-minimal"), ("arm64",), "extract")
    root = system.unpack(work / "roots", work / "check-root")
    for name in ("lib", "bin", "sbin"):
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    package = out / f"lbdns_{version}-1~deb{release.number}_arm64.deb"
    subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, stdout=(root / "package.tar").open("wb"))
    subprocess.run(["tar", "--extract", "--file", root / "package.tar", "--directory", root], check=True)
    shutil.copy(emulator, root / "qemu")
    python = [f"/{PREFIX}/bin/python3", f"/usr/bin/python{release.python}"]  # argv[0] selects the environment
    command = ["chroot", str(root), "/qemu", "-0", *python, "-I", "-c", _PROGRAM]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode or result.stdout.strip() != "aarch64":
        raise PackagingError(
            f"the arm64 package for {release.codename} failed its check:\n{result.stdout}{result.stderr}"
        )
