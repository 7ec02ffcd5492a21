"""Compares the server's arm64 package, which runs under qemu, with the amd64 package: both give the same responses."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from lbdns_packaging import answer_digest
from lbdns_packaging.debian_releases import DebianRelease
from lbdns_packaging.root_file_systems import PackagingError, RootFileSystem
from lbdns_packaging.server_environment import PREFIX

_EMULATOR: Final = "qemu-aarch64-static"
_CONFIGURATION: Final = "/etc/lbdns/lbdns.toml"
_LIMIT: Final = 600.0  # seconds on a busy machine; takes half a minute on an idle one
#: Creates an object of the native extension, and imports the compiled modules of other projects
_LOAD: Final = (
    "import lbdns_native, msgpack, psutil; from multidict import _multidict; from msgpack import _cmsgpack; "
    "from lbdns.answering.plane import AVAILABLE; assert AVAILABLE; lbdns_native.DatagramBatch(); "
    "import platform; print(platform.machine())"
)


def check_arm64(release: DebianRelease, out: Path, work: Path, version: str) -> None:
    """Unpack the packages for ``release``, which are in ``out``, load the compiled parts of the arm64 package, and let
    both packages answer the same queries. Needs root. Raises PackagingError."""
    emulator = shutil.which(_EMULATOR)
    if not emulator:
        raise PackagingError(f"{_EMULATOR} not found: run 'make deps-packaging' as root")
    # Unpacked only, since the host cannot run what configures the arm64 packages
    native = _answers(_unpacked(release, "amd64", out, work, version), release, [])
    root = _unpacked(release, "arm64", out, work, version)
    shutil.copy(emulator, root / "qemu")
    machine = _run(root, release, ["/qemu", "-0"], "-c", _LOAD)
    if machine.strip() != "aarch64":
        raise PackagingError(f"the arm64 package for {release.codename} runs on {machine}")
    emulated = _answers(root, release, ["/qemu", "-0"])
    if (native.pop("machine"), emulated.pop("machine")) != ("x86_64", "aarch64") or native != emulated:
        raise PackagingError(f"{release.codename}: on amd64, the answers are {native}, but on arm64 {emulated}")
    fast = native["queries"] - native["slow"]
    print(f"{native['queries']} equal responses, {fast} of them by the native extension; ", end="")


def _unpacked(release: DebianRelease, architecture: str, out: Path, work: Path, version: str) -> Path:
    """Return a root file system with Python and the server's package."""
    packages = (f"python{release.python}", "python3-minimal")
    system = RootFileSystem(release.codename, packages, (architecture,), "extract")
    root = system.unpack(work / "roots", work / "check-root")
    for name in ("lib", "bin", "sbin", *(["lib64"] if architecture == "amd64" else [])):
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    package = out / f"lbdns_{version}-1~deb{release.number}_{architecture}.deb"
    with (root / "package.tar").open("wb") as tar:
        subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, stdout=tar)
    subprocess.run(["tar", "--extract", "--file", root / "package.tar", "--directory", root], check=True)
    return root


def _answers(root: Path, release: DebianRelease, emulator: list[str]) -> dict[str, Any]:
    program = Path(answer_digest.__file__)
    shutil.copy(program, root / program.name)
    document: dict[str, Any] = json.loads(_run(root, release, emulator, f"/{program.name}", _CONFIGURATION))
    return document


def _run(root: Path, release: DebianRelease, emulator: list[str], *arguments: str) -> str:
    """Run the package's Python in ``root``, and return what it prints."""
    inside, binary = f"/{PREFIX}/bin/python3", f"/usr/bin/python{release.python}"
    # argv[0] selects the environment
    python = [*emulator, inside, binary] if emulator else [inside]
    result = subprocess.run(
        ["chroot", str(root), *python, "-I", *arguments], check=False, capture_output=True, text=True, timeout=_LIMIT
    )
    if result.returncode:
        raise PackagingError(f"the package for {release.codename} failed:\n{result.stdout}{result.stderr}")
    return result.stdout
